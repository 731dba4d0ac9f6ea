"""How judges word what they found: short lists, and why a reading has no value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusterctl.facts.base import Reading, ReadStatus

_WORDS = {
    ReadStatus.ABSENT: "is not there",
    ReadStatus.EMPTY: "said nothing",
    ReadStatus.FAILED: "could not be read",
    ReadStatus.DENIED: "needs root to be read",
    ReadStatus.UNPARSABLE: "said something that is not understood",
}


def some(items: Sequence[str], limit: int = 6) -> str:
    """Return a list for a sentence; past ``limit`` items the rest is a count."""
    if len(items) <= limit:
        return ", ".join(items)
    return f"{', '.join(items[:limit])} and {len(items) - limit} more"


def counted(number: int, thing: str) -> str:
    """Return ``1 GPU``, ``2 GPUs``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def because(what: str, reading: Reading[Any]) -> str:
    """Say why a reading has no value."""
    words = f"{what} {_WORDS.get(reading.status, 'has no value')}"
    return f"{words} ({reading.detail})" if reading.detail else words
