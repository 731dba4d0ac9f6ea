"""A view as lines of text, whose tones a terminal shows as colours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from clusterctl.report.line import Tone, TonedLine, labelled, whole
from clusterctl.report.text.table import columns, fits, halves_above, words
from clusterctl.report.text.wrapping import next_lines, wrapped, wrapped_message
from clusterctl.report.view import Block, Cell, Item, Table, View

T = TypeVar("T")
_OF_DIFF = {"+": Tone.GOOD, "-": Tone.BAD, " ": Tone.PLAIN}


def render(view: View, width: int | None = None) -> str:
    """Return the lines of a view as plain text."""
    return "\n".join(line.text for line in lines(view, width))


def lines(view: View, width: int | None = None) -> list[TonedLine]:
    """Return the blocks of a view that a terminal shows; ``width`` wraps all but tables and diffs (None: never)."""
    # A device or a value that a node named may have line breaks, and must not begin a line of its own.
    sentence = wrapped_message(view.sentence.replace("\n", "\n    "), width)
    found = [whole(line, Tone.HEAD) for line in sentence.split("\n")] if sentence else []
    for block in view.blocks:
        shown = list(_lines(block, width)) if block.on_terminal else []
        found += [TonedLine(""), *shown] if block.apart and found and shown else shown
    return found


def _lines(block: Block, width: int | None) -> Iterator[TonedLine]:
    items, left_out = _first(block.items, block.limit)
    for text in (block.before, *block.lines) if block.before else block.lines:
        yield from _message(text, width)
    if block.signs:
        size = max((len(one.about) for one in items), default=0)
        for one in items:
            yield from _change(one, size, width)
    else:
        for one in items:
            yield from _item(one, width)
    for text in left_out:
        yield from _message(text, width)
    for table in (*block.tables, *block.closed):
        rows, left_out = _first(tuple(enumerate(table.rows)), block.limit)
        notes = tuple(table.notes[number] for number, _ in rows) if table.notes else ()
        yield from _table(replace(table, rows=tuple(row for _, row in rows), notes=notes), width)
        yield from map(TonedLine, left_out)
    for text in block.after:
        yield from _message(text, width)
    yield from map(labelled, next_lines(block.steps, width))


def _message(text: str, width: int | None, tone: Tone = Tone.PLAIN) -> Iterator[TonedLine]:
    first, *others = wrapped_message(text, width).split("\n")
    yield labelled(first, tone)
    yield from map(labelled, others)


def _item(one: Item, width: int | None) -> Iterator[TonedLine]:
    text, *why = one.lines
    first, *others = _message(text, width, one.tone)
    yield TonedLine(first.text, ((0, len(one.word), one.tone),)) if one.word else first
    yield from others
    for reason in why:
        for line in _message(reason, width):
            yield line if line.marks else whole(line.text, Tone.FAINT)


def _change(one: Item, size: int, width: int | None) -> Iterator[TonedLine]:
    """Yield one change: its sign, its name in ``size`` columns, its text; below them its diff, and why."""
    first, *others = wrapped(f"  {one.word} {one.about:{size}}  {one.said}", width, indent=size + 6)
    yield whole(first, one.tone) if one.tone is Tone.FAINT else TonedLine(first, ((2, 3, one.tone),))
    yield from (whole(line, Tone.FAINT) if one.tone is Tone.FAINT else TonedLine(line) for line in others)
    for text in one.diff:
        yield whole(f"      {text}", _OF_DIFF.get(text[:1], Tone.FAINT))
    for text in one.why:
        yield from map(labelled, wrapped(f"      {text}", width, indent=8))


def _first(found: tuple[T, ...], limit: int) -> tuple[tuple[T, ...], tuple[str, ...]]:
    """Return what is shown, and a line on the rest, which is never that of one only."""
    more = len(found) - limit
    return (
        (found[:limit], (f"... and {more} more (--json has them all)",))
        if limit and more > 1
        else (found, ())
    )


def _table(table: Table, width: int | None) -> Iterator[TonedLine]:
    """Yield the columns that a terminal shows; of a table with notes, those that are not wide if all do not fit."""
    shown = table.on_terminal()
    if table.notes and width is not None and not fits(_columns(shown), width):
        shown = table.narrow()
        above, *rows = _columns(shown).split("\n")
        yield whole(above, Tone.FAINT)
        for row, cells, note in zip(rows, shown.rows, table.notes, strict=True):
            first, *others = wrapped(row, width)
            marks = ((start, min(end, len(first)), tone) for start, end, tone in _marked(row, cells).marks)
            yield TonedLine(first, tuple(one for one in marks if one[0] < one[1]))
            yield from map(TonedLine, others)
            below = textwrap.wrap(note, max(20, width), initial_indent=" " * 4, subsequent_indent=" " * 4)
            yield from (whole(line, Tone.FAINT) for line in below)
    elif all(head.words for head in shown.heads) and not table.notes:
        texts = [[_text(cell) for cell in row] for row in shown.rows]
        head, *listed = words([head.text for head in shown.heads], texts, width)
        yield from (whole(line, Tone.FAINT) for line in head if line)
        for (first, *others), cells in zip(listed, shown.rows, strict=True):
            yield _marked(first, cells)
            yield from map(TonedLine, others)
    else:
        text = _columns(shown)
        heads = 2 if shown.groups else 1
        for number, row in enumerate(
            (halves_above(text, *shown.groups) if shown.groups else text).split("\n")
        ):
            yield whole(row, Tone.FAINT) if number < heads else _marked(row, shown.rows[number - heads])


def _columns(table: Table) -> str:
    left = [index for index, head in enumerate(table.heads) if head.words]
    rows = [[_text(cell) for cell in row] for row in table.rows]
    return columns([head.text for head in table.heads], rows, left=left)


def _text(cell: Cell) -> str:
    return (cell.terminal or cell.text).replace("\n", " ")


def _marked(row: str, cells: Sequence[Cell]) -> TonedLine:
    """Return a row with the tones of its cells, as far as it holds them whole."""
    at, marks = 0, []
    for cell in cells if any(cell.tone for cell in cells) else ():
        text = _text(cell)
        # Only blanks stand between two cells, so the next occurrence of a cell's text is its place.
        start = row.find(text, at)
        if start < 0:
            break
        at = start + len(text)
        if cell.tone and text.strip():
            marks.append((start, at, cell.tone))
    return TonedLine(row, tuple(marks))
