"""What a person sees of a result, without the form in which it is shown: tables whose cells carry their status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Tone(str, Enum):
    """Tell how a cell is to be seen; pages and terminals choose the colour."""

    PLAIN = ""
    GOOD = "good"
    BAD = "bad"
    FAINT = "faint"


@dataclass(frozen=True, slots=True)
class Cell:
    """One value as text; ``more`` is what only the terminal shows beside it."""

    text: str
    tone: Tone = Tone.PLAIN
    more: str = ""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column of numbers, or of words (``words``); pages name it ``page`` and add the ``unit``."""

    text: str
    page: str = ""
    unit: str = ""
    words: bool = False
    early: bool = False
    """Whether pages move the column to the front, where a narrow page shows it."""
    on_terminal: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column names the rows."""

    heads: tuple[Head, ...]
    rows: tuple[tuple[Cell, ...], ...]
    groups: tuple[str, str] | None = None
    """The names of two equal groups of columns, the second of which begins at the last ``time us``."""

    def on_page(self) -> Table:
        """Return the columns in the order of a page."""
        return self._of(sorted(range(len(self.heads)), key=lambda at: (at > 0, not self.heads[at].early)))

    def on_terminal(self) -> Table:
        """Return the columns of a terminal."""
        return self._of([index for index, head in enumerate(self.heads) if head.on_terminal])

    def _of(self, columns: Sequence[int]) -> Table:
        return Table(
            tuple(self.heads[index] for index in columns),
            tuple(tuple(row[index] for index in columns) for row in self.rows),
            self.groups,
        )
