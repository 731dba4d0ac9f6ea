"""Search for hundreds of fixed texts in one pass.

Each 4 bytes at an even place of the lines are looked up as one number. Of the 4 bytes from two neighbouring places of
a text, one are at an even place wherever the text is, so a text needs two entries in the table. Nearly all of a log is
ruled out by its numbers alone, at the same cost for any number of texts.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from functools import lru_cache
from itertools import compress

SHORTEST = 5
"""The bytes of the shortest text that can be searched for."""

Table = dict[int, list[tuple[bytes, int]]]
"""Texts, each with the place of the 4 bytes in it, by these 4 bytes as a number."""


@lru_cache(maxsize=8)
def table(texts: tuple[bytes, ...]) -> Table:
    """Return the table of texts of at least ``SHORTEST`` bytes, each by those of its bytes that the fewest have."""
    often = Counter(text[at : at + 4] for text in texts for at in range(len(text) - 3))

    def texts_like(text: bytes, at: int) -> int:
        return often[text[at : at + 4]] + often[text[at + 1 : at + 5]]

    found: Table = {}
    for text in texts:
        _, rarest = min((texts_like(text, at), at) for at in range(len(text) - SHORTEST + 1))
        for at in (rarest, rarest + 1):
            found.setdefault(int.from_bytes(text[at : at + 4], sys.byteorder), []).append((text, at))
    return found


def by_line(texts: Table, lines: bytes) -> dict[tuple[int, int], set[bytes]]:
    """Return the texts in each line that has any, by its start and end."""
    found: dict[tuple[int, int], set[bytes]] = {}
    for first in (0, 2):
        own: set[bytes] = set()
        end = -1
        numbers = array("I")
        numbers.frombytes(memoryview(lines)[first : len(lines) - (len(lines) - first) % 4])
        for at in compress(range(len(numbers)), map(texts.__contains__, numbers)):
            place = first + 4 * at
            for text, before in texts[numbers[at]]:
                if not lines.startswith(text, place - before):
                    continue
                if place > end:
                    start, end = lines.rfind(b"\n", 0, place) + 1, lines.find(b"\n", place)
                    end = len(lines) if end < 0 else end
                    own = found.setdefault((start, end), set())
                own.add(text)
    return found
