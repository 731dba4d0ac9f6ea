"""What a reader of another tool's inventory finds: nodes, groups, and everything that it leaves behind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from clusterctl.errors import InventoryError
from clusterctl.foreign import LINE_CHARACTERS

Setting = str | int
_MOST_DIGITS = 18


def printable(text: str) -> str:
    """Return the text on one line, with a ``?`` for every character that is not shown."""
    return "".join(c if c.isprintable() else "?" for c in text)


def split_outside(text: str, brackets: str = "[]") -> list[str]:
    """Split at commas that are not within brackets: ``gpu[01-03,07]`` is one expression."""
    parts, start, inside = [], 0, False
    for match in re.finditer(r"[\[\](),]", text):
        if match[0] == "," and not inside:
            parts.append(text[start : match.start()])
            start = match.end()
        elif match[0] in brackets:
            inside = match[0] in "[("
    return [*parts, text[start:]]


def numbered_lines(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers; raise InventoryError for one of more than LINE_CHARACTERS."""
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > LINE_CHARACTERS:
            raise InventoryError(
                f"{name}:{number}: the line has {len(line)} characters; at most {LINE_CHARACTERS} are read",
                hint="check that this file is the inventory that you mean, or split the line",
            )
        yield number, line


def whole_number(digits: str) -> int:
    """Return what decimal digits say; one that no setting may be for more of them than Python makes a number of."""
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """Something that is not carried over, or not as it stands; line 0 when a file as a whole is meant."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        said = f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"
        # The text quotes what a stranger's file says: nothing of it may act on a terminal or end a comment.
        return printable(said)


@dataclass(frozen=True, slots=True)
class FoundNode:
    """One node; ``settings`` are keys of the inventory's nodes, ``address`` None means the name."""

    name: str
    file: str
    line: int
    address: str | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was read, in the source's order."""

    nodes: tuple[FoundNode, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A text to read. ``beside`` holds files that belong to it (group_vars/..., Includes), by their path."""

    name: str
    text: str
    beside: Mapping[str, str] = field(default_factory=dict)
