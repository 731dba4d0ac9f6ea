"""Suggest the names that a mistyped name may mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from clusterctl.text.grouping import grouped

_PREFIX = 3
"""The fewest characters that are taken as the beginning of a name."""
_IGNORED = re.compile(r"[\s_.+-]+")


def spelled(word: str, known: Sequence[str]) -> str:
    """Return the one known name that differs from a word only in case and punctuation; else the word."""
    same = [name for name in known if _plain(name) == _plain(word)]
    return word if word in known or len(same) != 1 else same[0]


def closest(word: str, known: Sequence[str], most: int = 3) -> list[str]:
    """Return the known names that begin with a word or resemble it, best first; case and punctuation do not count."""
    by_plain = grouped((_plain(name), name) for name in known)
    same = by_plain.get(_plain(word))
    if same:
        return same[:most]
    begun = [plain for plain in by_plain if len(_plain(word)) >= _PREFIX and plain.startswith(_plain(word))]
    near = dict.fromkeys((*begun, *get_close_matches(_plain(word), by_plain, n=most)))
    return [name for plain in near for name in by_plain[plain]][:most]


def did_you_mean(word: str, known: Sequence[str], listed: Sequence[str] | None = None) -> str:
    """Return a hint: the names that a word may mean, then all known ones (or the ``listed`` ones)."""
    near = closest(word, known)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{meant}choose from: {', '.join(known if listed is None else listed)}"


def _plain(name: str) -> str:
    return _IGNORED.sub("", name).lower()
