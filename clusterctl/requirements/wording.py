"""Word the findings of judges: short lists, and why a reading has no value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusterctl.facts.base import Reading, ReadStatus

_WORDS = {
    ReadStatus.ABSENT: "was not found",
    ReadStatus.EMPTY: "is empty",
    ReadStatus.FAILED: "could not be read",
    ReadStatus.DENIED: "can be read only by root",
    ReadStatus.UNPARSABLE: "could not be parsed",
}


def some(items: Sequence[str], limit: int = 6) -> str:
    """Return a list for a sentence; items beyond ``limit`` are given as a count."""
    if len(items) <= limit:
        return ", ".join(items)
    return f"{', '.join(items[:limit])} and {len(items) - limit} more"


def counted(number: int, thing: str) -> str:
    """Return ``1 GPU``, ``2 GPUs``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def because(what: str, reading: Reading[Any]) -> str:
    """Return why a reading has no value, with its detail."""
    words = f"{what} {_WORDS.get(reading.status, 'has no value')}"
    return f"{words} ({reading.detail})" if reading.detail else words
