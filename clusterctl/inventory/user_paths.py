"""Paths as users write them: ``~`` is a home, also where that is nobody's; and whether something is there.

Path's own ``is_file`` and its siblings raise where a folder on the way may not be entered (the home of another user, as
with ``docker run --user``), or a name is too long.
"""

from __future__ import annotations

import os
from pathlib import Path


def at_home(text: str) -> Path:
    """Return a path whose ``~`` is a user's home; the ``~`` of a user who does not exist stays."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def is_file(path: Path | str) -> bool:
    """Tell whether a file is there, as far as one may look."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path | str) -> bool:
    """Tell whether a folder is there, as far as one may look."""
    return os.path.isdir(path)  # noqa: PTH112


def is_there(path: Path | str) -> bool:
    """Tell whether anything is there, as far as one may look."""
    return os.path.exists(path)  # noqa: PTH110
