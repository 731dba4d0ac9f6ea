"""Node sets: expand ``gpu[01-16],spare`` to names, and fold names to the shortest node set."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from clusterctl.errors import InventoryError
from clusterctl.text.grouping import grouped

MAX_NODES = 65536
MAX_MEMBERS = 16 * MAX_NODES
"""Maximum number of memberships over all groups of a fleet; each node counts once in each of its groups."""
_MAX_TEXT = 65536
_MOST_COUNTED = 10**18
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?(?:/([0-9]{1,9}))?")
# A number that is too long for a range stays part of the name.
_DIGITS = re.compile(r"(?<![0-9])([0-9]{1,9})(?![0-9])")


class NodeSetError(InventoryError):
    """A malformed node set."""


@dataclass(frozen=True, slots=True)
class NodeSet:
    """A parsed node set with its number of names, which are not expanded yet."""

    size: int
    _items: tuple[_Item, ...]

    def names(self) -> Iterator[str]:
        """Yield the names in the order written, including repeated ones."""
        return (name for item in self._items for name in item.names())


def parse(text: str) -> NodeSet:
    """Parse a text as a node set.

    The notation is ClusterShell's: commas, ``[1-3,7]``, steps ``[0-8/2]``, several brackets in one name; zero
    padding is kept. Raise NodeSetError for a malformed text, a descending range, or more than MAX_NODES names.
    """
    if len(text) > _MAX_TEXT:
        raise NodeSetError(f"the node set has {len(text)} characters; at most {_MAX_TEXT} are accepted")
    items = tuple(_Item(part) for part in split(text))
    total = sum(item.size for item in items)
    if total > MAX_NODES:
        names = str(total) if total <= _MOST_COUNTED else f"more than {_MOST_COUNTED}"
        raise NodeSetError(f"{_short(text)} has {names} names; at most {MAX_NODES} are accepted")
    return NodeSet(total, items)


def expand(text: str) -> tuple[str, ...]:
    """Return the names of a node set in the order written, with repeated ones; raise NodeSetError as ``parse``."""
    return tuple(parse(text).names())


def fold(names: Iterable[str]) -> str:
    """Return the shortest node set for these names, without repeats: ``gpu[01-03,07],spare``.

    Names that differ in one number are joined into a range, at the place of the first of them.
    """
    left = dict.fromkeys(names)
    order = {name: index for index, name in enumerate(left)}
    folded: dict[str, int] = {}
    tokens = {name: tuple(_DIGITS.split(name)) for name in left}
    deepest = max((len(parts) for parts in tokens.values()), default=0)
    # The last number in a name most likely counts nodes; the remaining names are joined by earlier numbers.
    for from_end in range(2, deepest + 1, 2):
        sets: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
        for name in left:
            parts = tokens[name]
            if len(parts) > from_end:
                sets.setdefault((parts[:-from_end], parts[1 - from_end :]), []).append(name)
        for (before, after), members in sets.items():
            if len(members) > 1:
                numbers = [tokens[name][-from_end] for name in members]
                text = f"{''.join(before)}[{','.join(_ranges(numbers))}]{''.join(after)}"
                folded[text] = min(order[name] for name in members)
                for name in members:
                    del left[name]
    folded.update({name: order[name] for name in left})
    return ",".join(sorted(folded, key=folded.__getitem__))


def fold_counted(names: Collection[str], noun: str = "") -> str:
    """Return names folded, with their number and ``noun`` if there are several: ``gpu[01-04] (4)``."""
    return fold(names) + (f" ({len(names)}{noun})" if len(names) > 1 else "")


def fold_shares(shares: Mapping[str, int]) -> str:
    """Return how many of something each name has, names with equal numbers folded: ``gpu[01-03] (2 each), gpu04 (1)``.

    The order is that of the first name of each number.
    """
    by_count = grouped((count, name) for name, count in shares.items())
    return ", ".join(
        f"{fold(names)} ({count}{' each' if len(names) > 1 else ''})" for count, names in by_count.items()
    )


class _Item:
    """One comma-separated part: literal pieces and, between them, the numbers of each bracket."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.literals: list[str] = []
        self.brackets: list[list[tuple[int, int, int, int]]] = []
        rest = text
        while True:
            literal, opened, rest = rest.partition("[")
            if "]" in literal:
                raise NodeSetError(f"{_short(text)} has a ']' without its '['")
            self.literals.append(literal)
            if not opened:
                break
            inside, closed, rest = rest.partition("]")
            if not closed:
                raise NodeSetError(f"{_short(text)} has a '[' without its ']'")
            self.brackets.append([_range(part, text) for part in inside.split(",")])

    @property
    def size(self) -> int:
        """The number of names; counting stops a little above _MOST_COUNTED."""
        size = 1
        for bracket in self.brackets:
            size *= sum((last - first) // step + 1 for first, last, step, _ in bracket)
            if size > _MOST_COUNTED:
                break  # a product of thousands of brackets has more digits than Python prints
        return size

    def names(self) -> Iterator[str]:
        choices = [
            [
                f"{number:0{width}d}"
                for first, last, step, width in bracket
                for number in range(first, last + 1, step)
            ]
            for bracket in self.brackets
        ]
        for numbers in product(*choices):
            yield "".join(
                literal + number for literal, number in zip(self.literals, (*numbers, ""), strict=True)
            )


def split(text: str) -> list[str]:
    """Return the parts between commas outside of brackets; raise NodeSetError for an empty part."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    stripped = [part.strip() for part in parts]
    if not all(stripped):
        raise NodeSetError(f"{_short(text)} has an empty name" if text.strip() else "the node set is empty")
    return stripped


def _range(part: str, text: str) -> tuple[int, int, int, int]:
    """Return first, last, step and zero-padded width of one range."""
    match = _RANGE.fullmatch(part.strip())
    if match is None:
        raise NodeSetError(
            f"{_short(text)}: {part!r} is not a range", hint="a range is written 1-16, 01-16, 0-14/2 or 7"
        )
    low, high, step = match[1], match[2] or match[1], match[3] or "1"
    if int(low) > int(high):
        raise NodeSetError(
            f"{_short(text)}: the range {low}-{high} runs backwards", hint=f"write {high}-{low}"
        )
    if int(step) == 0:
        raise NodeSetError(f"{_short(text)}: the range {part!r} has a step of 0")
    padded = low.startswith("0") and len(low) > 1
    if (padded and len(high) < len(low)) or (high.startswith("0") and len(high) != len(low)):
        raise NodeSetError(
            f"{_short(text)}: the ends of {low}-{high} are padded to different widths",
            hint=f"write {low.zfill(len(high))}-{high.zfill(len(low))}",
        )
    return int(low), int(high), int(step), len(low) if padded else 0


def _ranges(numbers: list[str]) -> list[str]:
    """Fold distinct numbers as written: padded ones by their width, the others by value."""
    padded_widths = {len(number) for number in numbers if number.startswith("0") and len(number) > 1}
    by_width = grouped(
        (len(number) if len(number) in padded_widths else 0, int(number)) for number in numbers
    )
    ranges = []
    for width, values in sorted(by_width.items(), key=lambda entry: -entry[0]):
        values.sort()
        start = previous = values[0]
        for value in [*values[1:], None]:
            if value is not None and value == previous + 1:
                previous = value
                continue
            first, last = f"{start:0{width}d}", f"{previous:0{width}d}"
            ranges.append(first if start == previous else f"{first}-{last}")
            if value is not None:
                start = previous = value
    return ranges


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
