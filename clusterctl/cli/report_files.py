"""Files that a verb writes because the user named them: reports for people, CI and collectors."""

from __future__ import annotations

import os
from pathlib import Path

from clusterctl.cli import console
from clusterctl.errors import ConfigError

_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd", "/proc")


def refuse_unwritable(path: Path | None) -> None:
    """Raise ConfigError, before any node is contacted, for a report file that could not be written in the end."""
    if path is None:
        return
    if str(path) == "-":
        raise ConfigError("a report's file cannot be -", hint="name a file; /dev/stdout is standard output")
    if _is_special(path):
        return
    if path.is_dir():
        raise ConfigError(f"cannot write {path}: it is a folder", hint="name a file in it")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"cannot write {path}: no such folder, or not ours to write", hint="make the folder first"
        )


def write(path: Path, text: str) -> None:
    """Write a report whole or not at all; ConfigError when that cannot be.

    A link stays one. What is no plain file (/dev/stdout, /dev/null, a named pipe) is written into: to replace it, as is
    done for plain files, would take it from everybody.
    """
    from clusterctl.rundir import write_atomically

    try:
        if _is_special(path):
            console.flush()
            with path.open("ab", buffering=0) as stream:
                stream.write(text.encode())
            return
        path = path.resolve()
        # A Prometheus collector may read at any moment, and as another user.
        write_atomically(path, text.encode(), mode=0o644)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _is_special(path: Path) -> bool:
    # Where a stream leads to a plain file, that is not ours to replace either: the shell has it open.
    is_stream = any(path.is_relative_to(name) for name in _STREAMS)
    return is_stream or (path.exists() and not path.is_file() and not path.is_dir())
