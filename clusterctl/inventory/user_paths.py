"""Paths as users write them: expansion of ``~`` that never fails, and tests whether a path exists.

``Path.is_file`` and similar methods raise if a directory on the way is not accessible (the home of another user, as
with ``docker run --user``), or if a name is too long.
"""

from __future__ import annotations

import os
from pathlib import Path


def at_home(text: str) -> Path:
    """Return a path with ``~`` expanded; ``~`` of an unknown user stays unchanged."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def is_file(path: Path | str) -> bool:
    """Return whether a path is an accessible file."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path | str) -> bool:
    """Return whether a path is an accessible directory."""
    return os.path.isdir(path)  # noqa: PTH112


def is_there(path: Path | str) -> bool:
    """Return whether a path exists and is accessible."""
    return os.path.exists(path)  # noqa: PTH110
