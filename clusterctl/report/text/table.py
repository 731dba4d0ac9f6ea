"""Sizes and columns of tables of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

_LEAST_WORDS = 34
"""A narrower column of reasons is hard to read; then reasons go below their rows."""
_LEAST_NAMES = 20
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(size_bytes: int) -> str:
    """Return a size in a readable unit: 1536 -> 1.5 KiB."""
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return (
                f"{size_bytes / unit:g} {name}"
                if size_bytes % unit == 0
                else f"{size_bytes / unit:.1f} {name}"
            )
    return f"{size_bytes} B"


def noise_share(noise: float | None) -> str:
    """Return the noise of a ratio for a table: ``\u00b15.0 %``."""
    if noise is None:
        return "?"
    return ">100 %" if noise > 1 else f"\u00b1{100 * noise:.{1 if noise < 0.0995 else 0}f} %"


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = ()) -> str:
    """Return right-aligned columns; those with an index in ``left`` align left."""
    cells = [list(headers), *[list(row) for row in rows]]
    widths = [max(len(row[index]) for row in cells) for index in range(len(headers))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def words(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> Iterator[list[str]]:
    """Yield the lines of the heads and of each row, in left-aligned columns.

    The last column wraps below itself, or below the row if it would become too narrow.
    """
    cells = [list(heads), *[list(row) for row in rows]]
    sizes = [max(len(row[column]) for row in cells) for column in range(len(heads) - 1)]
    if width is not None and sizes:
        # One long list of nodes must not take the place of all reasons: its row continues below.
        sizes[-1] = min(sizes[-1], max(width // 4, _LEAST_NAMES))
    indent = sum(sizes) + 2 * len(sizes)
    if width is not None and width - indent < min(_LEAST_WORDS, max(len(row[-1]) for row in cells)):
        indent = min(4, max(0, width - _LEAST_WORDS))
        cells[0] = [*heads[:-1], ""]
    for row in cells:
        yield list(_line(row, sizes, indent, width))


def _line(row: Sequence[str], sizes: Sequence[int], indent: int, width: int | None) -> Iterator[str]:
    start = "".join(cell.ljust(size + 2) for cell, size in zip(row, sizes, strict=False))
    if width is None or (len(start) <= indent and indent + len(row[-1]) <= width):
        yield (start + row[-1]).rstrip()
        return
    parts = textwrap.wrap(row[-1], max(width - indent, 20), break_long_words=False, break_on_hyphens=False)
    if not parts:
        yield start.rstrip()
        return
    if len(start) > indent:
        yield start.rstrip()
        start = " " * indent
    yield start + parts[0]
    yield from (" " * indent + part for part in parts[1:])


def halves_above(table: str, first: str, second: str) -> str:
    """Return a table below a line that names its two groups of columns; each group begins with ``time us``."""
    heading = table.partition("\n")[0]
    # The words begin above the columns of time, which are right-aligned.
    left, right = heading.index("time us"), heading.rindex("time us")
    return f"{'':{left}}{first:{right - left}}{second}\n{table}"


def fits(table: str, width: int) -> bool:
    """Return whether all lines fit into the width."""
    return max(map(len, table.splitlines())) <= width


def with_notes(table: str, notes: Sequence[str], width: int) -> str:
    """Return a table with a note below each row, for columns that do not fit."""
    head, *rows = table.splitlines()
    indent = " " * 4
    told = (textwrap.fill(n, max(20, width), initial_indent=indent, subsequent_indent=indent) for n in notes)
    return "\n".join([head, *(f"{row}\n{note}" for row, note in zip(rows, told, strict=True))])


def loss(value: float | None) -> str:
    """Return a loss with four digits after the point; ``-`` for None."""
    return "-" if value is None else f"{value:.4f}"
