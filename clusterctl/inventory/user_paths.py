"""Paths as users write them: ``~`` is a home, also where that is nobody's."""

from __future__ import annotations

from pathlib import Path


def at_home(text: str) -> Path:
    """Return a path whose ``~`` is a user's home; the ``~`` of a user who does not exist stays."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)
