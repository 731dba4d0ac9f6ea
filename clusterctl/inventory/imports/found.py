"""The result of reading another tool's inventory: nodes, groups, and notes about everything that is not imported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from clusterctl.errors import InventoryError
from clusterctl.text.foreign import LINE_CHARACTERS

Setting = str | int
_MOST_DIGITS = 18


def printable(text: str) -> str:
    """Return the text on one line, with ``?`` for every character that is not printable."""
    return "".join(c if c.isprintable() else "?" for c in text)


def split_outside(text: str, brackets: str = "[]") -> list[str]:
    """Split at commas outside of brackets: ``gpu[01-03,07]`` is one expression."""
    parts, start, inside = [], 0, False
    for match in re.finditer(r"[\[\](),]", text):
        if match[0] == "," and not inside:
            parts.append(text[start : match.start()])
            start = match.end()
        elif match[0] in brackets:
            inside = match[0] in "[("
    return [*parts, text[start:]]


def numbered_lines(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers; raise InventoryError for one above LINE_CHARACTERS."""
    for number, line in enumerate(text.splitlines(), start=1):
        _require_short(name, number, line)
        yield number, line


def require_short_lines(name: str, text: str) -> None:
    """Raise InventoryError for a line above LINE_CHARACTERS; only a newline ends a line."""
    for number, line in enumerate(text.split("\n"), start=1):
        _require_short(name, number, line)


def _require_short(name: str, number: int, line: str) -> None:
    if len(line) > LINE_CHARACTERS:
        raise InventoryError(
            f"{name}:{number}: the line has {len(line)} characters; at most {LINE_CHARACTERS} are read",
            hint="check that this is the intended inventory file, or split the line",
        )


def whole_number(digits: str) -> int:
    """Return decimal digits as a number; above 18 digits, which Python may refuse, a number that no setting accepts."""
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


@dataclass(frozen=True, slots=True, order=True)
class ImportNote:
    """A note about something that is not imported, or changed; line 0 means the file as a whole."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        said = f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"
        # The text quotes an untrusted file, so it must not act on a terminal or end a comment.
        return printable(said)


@dataclass(frozen=True, slots=True)
class FoundNode:
    """One node; ``settings`` are keys of the inventory's nodes; without ``address``, the name is the address."""

    name: str
    file: str
    line: int
    address: str | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImportedInventory:
    """The nodes, groups and notes of an import, in the source's order."""

    nodes: tuple[FoundNode, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[ImportNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A text to read; ``beside`` holds the files that belong to it (group_vars/..., Includes), by path."""

    name: str
    text: str
    beside: Mapping[str, str] = field(default_factory=dict)
