"""A view as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from clusterctl.report.text.table import columns, halves_above
from clusterctl.report.text.wrapping import wrapped_message
from clusterctl.report.view import Block, Table, View


def render(view: View, width: int | None = None) -> str:
    """Return the blocks of a view that a terminal shows; ``width`` wraps all but tables (None: never)."""
    lines = [wrapped_message(view.sentence, width)] if view.sentence else []
    for block in view.blocks:
        if block.on_terminal:
            lines += ["", *_lines(block, width)] if block.apart and lines else _lines(block, width)
    return "\n".join(lines)


def _lines(block: Block, width: int | None) -> Iterator[str]:
    before = (block.before,) if block.before else ()
    above = (*before, *block.lines, *(line for one in block.items for line in one.lines))
    yield from (wrapped_message(one, width) for one in above)
    yield from (_table(one) for one in (*block.tables, *block.closed))
    yield from (wrapped_message(one, width) for one in block.after)


def _table(table: Table) -> str:
    """Return the columns that a terminal shows."""
    shown = table.on_terminal()
    text = columns(
        [head.text for head in shown.heads],
        [[cell.terminal or cell.text for cell in row] for row in shown.rows],
        left=[index for index, head in enumerate(shown.heads) if head.words],
    )
    return halves_above(text, *shown.groups) if shown.groups else text
