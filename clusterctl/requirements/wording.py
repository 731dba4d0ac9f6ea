"""Word why a reading has no value."""

from __future__ import annotations

from typing import Any

from clusterctl.facts.base import Reading, ReadStatus

NO_SYSTEMD = "the node does not run systemd"
"""Why a node has no step that installs or starts a service."""
_WORDS = {
    ReadStatus.ABSENT: "was not found",
    ReadStatus.EMPTY: "is empty",
    ReadStatus.FAILED: "could not be read",
    ReadStatus.DENIED: "can be read only by root",
    ReadStatus.UNPARSABLE: "could not be parsed",
}


def because(what: str, reading: Reading[Any]) -> str:
    """Return why a reading has no value, with its detail."""
    words = f"{what} {_WORDS.get(reading.status, 'has no value')}"
    return f"{words} ({reading.detail})" if reading.detail else words
