"""A view as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from clusterctl.report.text.next_step import next_lines
from clusterctl.report.text.table import columns, halves_above, words
from clusterctl.report.text.wrapping import wrapped, wrapped_message
from clusterctl.report.view import Block, Item, Table, View

T = TypeVar("T")


def render(view: View, width: int | None = None) -> str:
    """Return the blocks of a view that a terminal shows; ``width`` wraps all but tables (None: never)."""
    # A device or a value that a node named may have line breaks, and must not begin a line of its own.
    lines = [wrapped_message(view.sentence.replace("\n", "\n    "), width)] if view.sentence else []
    for block in view.blocks:
        shown = list(_lines(block, width)) if block.on_terminal else []
        lines += ["", *shown] if block.apart and lines and shown else shown
    return "\n".join(lines)


def _lines(block: Block, width: int | None) -> Iterator[str]:
    before = (block.before,) if block.before else ()
    items, left_out = _first(block.items, block.limit)
    said = () if block.signs else (line for one in items for line in one.lines)
    yield from (wrapped_message(one, width) for one in (*before, *block.lines, *said, *left_out))
    if block.signs:
        yield from _changes(items, width)
    for one in (*block.tables, *block.closed):
        rows, left_out = _first(one.rows, block.limit)
        yield from (*_table(replace(one, rows=rows), width), *left_out)
    yield from (wrapped_message(one, width) for one in block.after)
    yield from next_lines(block.steps, width)


def _changes(items: Sequence[Item], width: int | None) -> Iterator[str]:
    size = max(len(one.about) for one in items)
    for one in items:
        yield from wrapped(f"  {one.word} {one.about:{size}}  {one.said}", width, indent=size + 6)
        yield from (f"      {line}" for line in one.diff)
        for line in one.why:
            yield from wrapped(f"      {line}", width, indent=8)


def _first(found: tuple[T, ...], limit: int) -> tuple[tuple[T, ...], tuple[str, ...]]:
    """Return what is shown, and a line on the rest, which is never that of one only."""
    more = len(found) - limit
    return (
        (found[:limit], (f"... and {more} more (--json has them all)",))
        if limit and more > 1
        else (found, ())
    )


def _table(table: Table, width: int | None) -> Iterator[str]:
    """Yield the columns that a terminal shows."""
    shown = table.on_terminal()
    heads = [head.text for head in shown.heads]
    rows = [[(cell.terminal or cell.text).replace("\n", " ") for cell in row] for row in shown.rows]
    if all(head.words for head in shown.heads):
        yield from words(heads, rows, width)
        return
    text = columns(heads, rows, left=[index for index, head in enumerate(shown.heads) if head.words])
    yield halves_above(text, *shown.groups) if shown.groups else text
