"""What a reader of another tool's inventory finds: nodes, groups, and everything that it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Setting = str | int
_MOST_DIGITS = 18


def printable(text: str) -> str:
    """Return the text on one line, with a ``?`` for every character that is not shown."""
    return "".join(c if c.isprintable() else "?" for c in text)


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
