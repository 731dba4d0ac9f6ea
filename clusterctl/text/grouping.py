"""Group values by their keys, and lines by their first words."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, in the order of the pairs."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def by_first_word(text: str) -> dict[str, list[str]]:
    """Return the rests of lines by the word before their first blank."""
    return grouped((word, rest) for word, _, rest in (line.partition(" ") for line in text.splitlines()))
