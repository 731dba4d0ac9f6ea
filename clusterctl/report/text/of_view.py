"""A view as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from clusterctl.report.text.table import columns, halves_above
from clusterctl.report.view import Block, Table, View


def render(view: View) -> str:
    """Return the blocks of a view that a terminal shows; the caller wraps long lines."""
    return "\n".join(line for one in view.blocks if one.on_terminal for line in _lines(one))


def _lines(block: Block) -> Iterator[str]:
    if block.before:
        yield block.before
    yield from block.lines
    yield from (one.lines for one in block.items)
    yield from (_table(one) for one in (*block.tables, *block.closed))
    yield from block.after


def _table(table: Table) -> str:
    """Return the columns that a terminal shows."""
    shown = table.on_terminal()
    text = columns(
        [head.text for head in shown.heads],
        [[cell.terminal or cell.text for cell in row] for row in shown.rows],
        left=[index for index, head in enumerate(shown.heads) if head.words],
    )
    return halves_above(text, *shown.groups) if shown.groups else text
