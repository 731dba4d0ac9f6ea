"""Seeded hostile texts and values: variants of one attack that differ in kind, equal in each run of a test."""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Callable, Iterator

VARIANTS = 100
BREAKS = (
    "\n",
    "\r",
    "\r\n",
    "\n\r",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\x85",
    "\u2028",
    "\u2029",
    "\n\n",
    "\t",
)
"""What begins another line or column for a terminal, a pager or ``splitlines``."""
HIDDEN = (
    *(
        "\x00",
        "\x07",
        "\x08",
        "\x1b[2J",
        "\x1b]0;x\x07",
        "\x7f",
        "\x9b2J",
        "\u202e",
        "\u2066",
        "\u200b",
        "\u2060",
    ),
    *("\ufeff", "\ufff9", "\U000e0041", "\ud800", "\udfff", "\uffff"),
)
"""What acts on a terminal, or is not seen."""
WIDE_DASHES = ("\u2e3a", "\u2e3b")
"""A dash as wide as two, and one as wide as three."""
DASHES = (
    *(
        one
        for one in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(one) == "Pd" and one not in WIDE_DASHES
    ),
    *(
        "\u02d7",
        "\u2043",
        "\u207b",
        "\u208b",
        "\u2212",
        "\u2500",
        "\u2501",
        "\u2796",
        "\u30fc",
        "\u3161",
        "\u4e00",
    ),
    "\uff70",
)
"""Every other dash of Unicode, and what looks like one."""
BLANKS = (
    *(chr(code) for code in range(0x20, 0x10000) if unicodedata.category(chr(code)) == "Zs"),
    *("\t", "\x1f", "\u2800", "\u115f", "\u3164", "\uffa0"),
)
"""Every blank of Unicode of one line, and what looks like one."""
UNSEEN = (
    "\u00ad",
    "\u034f",
    "\u0335",
    "\u180b",
    "\u180e",
    "\u200c",
    "\u200d",
    "\ufe0e",
    "\ufe0f",
    "\U000e0100",
)
"""What a terminal shows as nothing, or as a part of the character before."""
NUMBERS: tuple[object, ...] = (
    *(0, -0.0, -1, 1, 2**31 - 1, 2**31, 2**53 + 1, 2**63, -(2**63), 2**64, 10**18, 10**19, 10**30, 10**400),
    *(5e-324, 1e-308, 0.1, 1e18, 1.0000000000000002e18, 1e19, -1e19, 1.7e308, -1.7e308),
    *(float("inf"), float("-inf"), float("nan")),
)
"""Numbers at and beyond every bound."""
OTHERS: tuple[object, ...] = (
    *(
        None,
        True,
        False,
        "",
        "x",
        "0",
        "1e999",
        "NaN",
        "-",
        "\u0663",
        "0x10",
        "1_000",
        " 1",
        [],
        [None],
        [[]],
        {},
    ),
    *({"": None}, {"__reduce__": ["os.system", "id"]}, [0] * 1000, "9" * 5000, "x" * 100_000),
)
"""Values of another type than a number, or that only look like one."""


def joined(chance: random.Random, *parts: str) -> str:
    """Join texts by breaks and hidden characters, also before the first and after the last."""
    found = ""
    for part in ("", *parts):
        found += part + "".join(chance.choice((*BREAKS, *HIDDEN)) for _ in range(chance.randint(1, 3)))
    return found


def texts(forged: str, count: int = VARIANTS) -> Iterator[str]:
    """Yield texts that hold a line of another one: behind each break, each hidden character, and seeded mixtures."""
    first = [f"cpu{sign}{forged}" for sign in (*BREAKS, *HIDDEN)]
    chance = random.Random(30)
    while len(first) < count:
        lengths = (0, 1, 39, 40, 199, 200, 299, 300, 999, 1000, 5000)
        first.append(joined(chance, "x" * chance.choice(lengths), *[forged] * chance.randint(1, 3)))
    yield from first[:count]


def values(count: int = VARIANTS) -> Iterator[object]:
    """Yield each hostile value, then seeded nestings of them."""
    chance = random.Random(30)
    kinds: tuple[Callable[[object], object], ...] = (
        lambda one: [one], lambda one: {"x": one}, lambda one: [one, one], lambda one: [{"line": one}], str,
    )  # fmt: skip
    first = [*NUMBERS, *OTHERS, *BREAKS, *HIDDEN]
    while len(first) < count:
        first.append(chance.choice(kinds)(chance.choice((*NUMBERS, *OTHERS))))
    yield from first[:count]
