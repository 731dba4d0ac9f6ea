"""Join consecutive nodes with equal settings into ranges, if their names and addresses count up together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clusterctl.inventory import nodeset

_DIGITS = re.compile(r"([0-9]+)")
_LONGEST = 900
"""Maximum characters of one range; an entry's name may have 1024."""


@dataclass(frozen=True, slots=True)
class Range:
    """Nodes ``start`` to ``end`` (excluded) as one entry; without ``address``, the names are the addresses."""

    start: int
    end: int
    name: str
    address: str | None


def ranges(names: Sequence[str], addresses: Sequence[str]) -> list[Range]:
    """Split nodes into the longest ranges that expand to exactly these names and addresses, in this order."""
    found = []
    start = 0
    while start < len(names):
        end = _end(names, addresses, start)
        one = _range(names, addresses, start, end)
        while one is None:  # one bracket cannot express this padding: halve the range until it can
            end = start + (end - start) // 2
            one = _range(names, addresses, start, end)
        found.append(one)
        start = one.end
    return found


def _end(names: Sequence[str], addresses: Sequence[str], start: int) -> int:
    """Return the end of the nodes that differ from the first in one number of the name, and of the address."""
    same = names[start] == addresses[start]
    name_place = address_place = None
    end = start + 1
    while end < len(names) and (names[end] == addresses[end]) == same:
        place = _place(names[end - 1], names[end])
        if place is None or name_place not in (None, place):
            break
        if not same:
            other = _place(addresses[end - 1], addresses[end])
            if other is None or address_place not in (None, other):
                break
            address_place = other
        name_place = place
        end += 1
    return end


def _place(one: str, other: str) -> int | None:
    """Return the index of the differing part if both differ in exactly one number, else None."""
    a, b = _DIGITS.split(one), _DIGITS.split(other)
    if len(a) != len(b):
        return None
    differing = [index for index, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    return differing[0] if len(differing) == 1 and differing[0] % 2 else None


def _range(names: Sequence[str], addresses: Sequence[str], start: int, end: int) -> Range | None:
    wanted = names[start:end]
    if end - start == 1:
        address = None if names[start] == addresses[start] else addresses[start]
        return Range(start, end, names[start], address)
    name = _bracket(wanted)
    address = None if list(wanted) == list(addresses[start:end]) else _bracket(addresses[start:end])
    if name is None or (address is None and list(wanted) != list(addresses[start:end])):
        return None
    return Range(start, end, name, address)


def _bracket(texts: Sequence[str]) -> str | None:
    """Return ``gpu[01-16,20]`` for texts that differ in one number, in their order; None if no bracket fits."""
    place = _place(texts[0], texts[1])
    if place is None:
        return None
    parts = _DIGITS.split(texts[0])
    numbers = [_DIGITS.split(text)[place] for text in texts]
    pieces: list[str] = []
    first = last = numbers[0]
    for number in [*numbers[1:], ""]:
        joined = number and int(number) == int(last) + 1 and number == f"{int(number):0{len(first)}d}"
        if joined and (len(number) == len(first) or not first.startswith("0") or len(first) == 1):
            last = number
            continue
        pieces.append(first if first == last else f"{first}-{last}")
        first = last = number
    text = "".join((*parts[:place], "[", ",".join(pieces), "]", *parts[place + 1 :]))
    try:
        return text if len(text) <= _LONGEST and nodeset.expand(text) == tuple(texts) else None
    except nodeset.NodeSetError:
        return None
