"""The loaded catalogue: every topic's file, read and checked once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from clusterctl import resources
from clusterctl.report.known_errors.model import KnownError, Topic

TOPICS = Path(__file__).parent / "topics"


@cache
def load() -> tuple[KnownError, ...]:
    """Return every entry, topics in the order of their file names; the first entry that matches a line explains it."""
    return tuple(
        entry
        for path in sorted(TOPICS.glob("*.yaml"))
        for entry in Topic.model_validate(resources.table(path)).entries
    )
