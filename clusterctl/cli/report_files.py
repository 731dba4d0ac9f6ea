"""Files that a verb writes because the user named them: reports for people, CI and collectors."""

from __future__ import annotations

import os
from pathlib import Path

from clusterctl.errors import ConfigError


def refuse_unwritable(path: Path | None) -> None:
    """Raise ConfigError, before any node is contacted, for a report file that could not be written in the end."""
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"cannot write {path}: it is a folder", hint="name a file in it")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"cannot write {path}: no such folder, or not ours to write", hint="make the folder first"
        )


def write(path: Path, text: str) -> None:
    """Write a report whole or not at all; ConfigError when that cannot be."""
    from clusterctl.rundir import write_atomically

    try:
        # A Prometheus collector may read at any moment, and as another user.
        write_atomically(path, text.encode(), mode=0o644)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
