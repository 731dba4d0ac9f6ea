"""What a person sees of a result, without the form in which it is shown: a sentence, tables, items and figures.

A module of ``clusterctl.views`` makes a view of a result. ``report.text`` and ``report.html`` show any view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from clusterctl.documents.evidence import Fault
from clusterctl.documents.kinds import ComparisonWord
from clusterctl.report.figures import Chart, Strip, TopologySection
from clusterctl.report.line import Tone

TONES = {
    ComparisonWord.FASTER: Tone.GOOD,
    ComparisonWord.SLOWER: Tone.BAD,
    ComparisonWord.SAME: Tone.FAINT,
    ComparisonWord.UNDECIDED: Tone.OPEN,
    ComparisonWord.ONCE: Tone.FAINT,
}
"""How the outcome of a comparison is to be seen."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value as text; ``terminal`` is what a terminal shows instead of it, ``title`` a page's tooltip."""

    text: str
    tone: Tone = Tone.PLAIN
    terminal: str = ""
    title: str = ""
    shade: str = ""
    """The colour of a cell of a heat map, as a class of the style sheet."""


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
    wide: bool = False
    """Whether a narrow terminal shows the notes of the rows instead of this column."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column names the rows."""

    heads: tuple[Head, ...]
    rows: tuple[tuple[Cell, ...], ...]
    groups: tuple[str, str] | None = None
    """The names of two equal groups of columns, the second of which begins at the last ``time us``."""
    style: str = "figures wrapped"
    """The classes of the style sheet: ``figures`` of numbers, ``plain`` of words, ``heat``, ``pairs`` of a name and a
    value of any length, or ``matrix`` of signs below upright heads."""
    title: str = ""
    note: str = ""
    notes: tuple[str, ...] = ()
    """What stands below each row on a terminal that is too narrow for the wide columns."""
    legend: tuple[Cell, ...] = ()
    """The meanings of the signs in a matrix."""

    def on_page(self) -> Table:
        """Return the columns in the order of a page."""
        return self._of(sorted(range(len(self.heads)), key=lambda at: (at > 0, not self.heads[at].early)))

    def on_terminal(self) -> Table:
        """Return the columns of a terminal."""
        return self._of([index for index, head in enumerate(self.heads) if head.on_terminal])

    def narrow(self) -> Table:
        """Return the columns of a narrow terminal."""
        return self._of(
            [index for index, head in enumerate(self.heads) if head.on_terminal and not head.wide]
        )

    def _of(self, columns: Sequence[int]) -> Table:
        if list(columns) == list(range(len(self.heads))):
            return self
        return replace(
            self,
            heads=tuple(self.heads[index] for index in columns),
            rows=tuple(tuple(row[index] for index in columns) for row in self.rows),
        )


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that was found: its verdict in a word, on which nodes, about what, what it is, and why."""

    tone: Tone
    said: str
    why: tuple[str, ...] = ()
    word: str = ""
    nodes: str = ""
    about: str = ""
    """The row or requirement; pages add its ``title``."""
    title: str = ""
    details: Table | None = None
    """The values behind it, which pages open at a click."""
    diff: tuple[str, ...] = ()
    """The lines that change in a file, which are never wrapped."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines on the terminal; further lines of a text are indented, as those that say why."""
        said = ": ".join(one for one in (self.nodes, self.about, self.said) if one)
        first = f"{self.word:7}  {said}" if self.word else said
        return tuple(one.replace("\n", "\n    ") for one in (first, *(f"    {why}" for why in self.why)))


@dataclass(frozen=True, slots=True)
class NextStep:
    """A command to type next and what it does, in words for a shell comment."""

    command: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a view: items, lines or tables; ``closed`` tables open at a click.

    A page has room for more than a terminal, and shows in its head what a terminal prints as a line.
    """

    title: str
    items: tuple[Item, ...] = ()
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    closed: tuple[Table, ...] = ()
    summary: str = ""
    """What a page says of closed tables."""
    before: str = ""
    """A sentence below the title."""
    after: tuple[str, ...] = ()
    """Sentences at the end."""
    tone: Tone = Tone.PLAIN
    """Pages put a block that is not plain into a box."""
    charts: tuple[Chart, ...] = ()
    strips: tuple[Strip, ...] = ()
    topology: TopologySection | None = None
    texts: tuple[tuple[str, str], ...] = ()
    """Names of long texts, which open at a click, and the texts."""
    steps: tuple[NextStep, ...] = ()
    limit: int = 0
    """The most items and rows of a table that a terminal shows; 0: all."""
    on_page: bool = True
    on_terminal: bool = True
    apart: bool = False
    """Whether a terminal prints an empty line before it."""
    signs: bool = False
    """Whether the items are changes, whose signs and names a terminal aligns."""

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to show."""
        boxed = self.before and self.tone is not Tone.PLAIN
        return not (
            boxed
            or self.items
            or self.lines
            or self.tables
            or self.closed
            or self.charts
            or self.strips
            or self.topology
            or self.texts
            or self.steps
        )


@dataclass(frozen=True, slots=True)
class Tile:
    """One main figure with its label, unit and note."""

    label: str
    value: str
    unit: str
    note: str


class CaseEnd(str, Enum):
    """Tell how a case ended, in the words of JUnit."""

    PASSED = "passed"
    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that a CI server counts: how it ended, of which kind, why, and further text (``told``).

    ``seconds`` is how long it took; None where it has no time of its own.
    """

    name: str
    end: CaseEnd = CaseEnd.PASSED
    kind: str = ""
    message: str = ""
    told: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of one node or one run."""

    name: str
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """One gauge of a monitoring system in base units, with the labels of each sample."""

    name: str
    what: str
    samples: tuple[tuple[Mapping[str, object], float], ...]


@dataclass(frozen=True, slots=True)
class View:
    """One result: its run, its verdict in a word and in a sentence, its main figures, its failures, and its blocks.

    ``suites``, ``metrics`` and ``lines`` are what CI servers, monitoring systems and spreadsheets read of it; they are
    made when a file of that form is written.
    """

    title: str
    blocks: tuple[Block, ...]
    run: str = ""
    began: str = ""
    """The start as text."""
    word: str = ""
    tone: Tone = Tone.PLAIN
    tiles: tuple[Tile, ...] = ()
    failures: tuple[Fault, ...] = ()
    suites: Callable[[], Iterable[Suite]] = tuple
    metrics: Callable[[], Iterable[Metric]] = tuple
    lines: Callable[[], Iterable[Mapping[str, object]]] = tuple
    """The figures by column, one line for each message size or point."""
    variants: tuple[str, ...] = ()
    """The names of the compared variants."""
    how: str = ""
    """How it was measured, beside the run."""
    sentence: str = ""
    """What follows from the result, on top of each page and text."""
    series: str = ""
    """What was measured: of several views of one series, only the newest is monitored."""
