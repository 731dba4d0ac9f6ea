"""A view as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from clusterctl.report.text.table import rendered
from clusterctl.report.view import Block, View


def render(view: View) -> str:
    """Return the blocks of a view that a terminal shows; the caller wraps long lines."""
    return "\n".join(line for one in view.blocks if one.on_terminal for line in _lines(one))


def _lines(block: Block) -> Iterator[str]:
    if block.before:
        yield block.before
    yield from block.lines
    yield from (one.lines for one in block.items)
    yield from (rendered(one) for one in (*block.tables, *block.closed))
    yield from block.after
