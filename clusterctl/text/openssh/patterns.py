"""Match ssh's patterns of ``*`` and ``?`` without a regular expression that could backtrack."""

from __future__ import annotations

from collections.abc import Iterable


def is_pattern(word: str) -> bool:
    """Return whether a word of a pattern list is more than the name of one host."""
    return any(mark in word for mark in "*?!")


def any_like(text: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern of a list matches a text, and no pattern with ``!`` does."""
    hits = [pattern[0] == "!" for pattern in patterns if pattern and like(text, pattern.removeprefix("!"))]
    return bool(hits) and not any(hits)


def like(text: str, pattern: str) -> bool:
    """Return whether a text matches a pattern of ``*`` and ``?`` (PATTERNS in ssh_config(5)).

    The time is at most the product of their lengths: the first match of a part between two stars leaves the most
    room for the following parts, so no position is tried twice.
    """
    parts = pattern.split("*")
    if len(parts) == 1:
        return len(text) == len(pattern) and _fits(pattern, text, 0)
    first, *between, last = parts
    at, end = len(first), len(text) - len(last)
    if at > end or not _fits(first, text, 0) or not _fits(last, text, end):
        return False
    for part in between:
        found = _find(part, text, at, end)
        if found is None:
            return False
        at = found + len(part)
    return True


def _find(part: str, text: str, at: int, end: int) -> int | None:
    if "?" not in part:
        found = text.find(part, at, end)
        return found if found >= 0 else None
    return next((start for start in range(at, end - len(part) + 1) if _fits(part, text, start)), None)


def _fits(part: str, text: str, at: int) -> bool:
    if "?" not in part:
        return text.startswith(part, at)
    return all(mark in ("?", text[at + i]) for i, mark in enumerate(part))
