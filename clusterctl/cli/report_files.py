"""Files that a verb writes because the user named them: reports for people, CI and collectors."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from clusterctl.cli import console
from clusterctl.errors import ConfigError, UsageError
from clusterctl.inventory.user_paths import is_file, is_folder, is_there

_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd", "/proc")


def refuse_unwritable(*paths: Path | None) -> None:
    """Raise, before any node is contacted, for report files that could not be written in the end.

    ConfigError for one that cannot be written, UsageError for two reports that would be one file.
    """
    places = []
    for path in paths:
        if path is None:
            continue
        if str(path) == "-":
            raise ConfigError(
                "a report's file cannot be -", hint="name a file; /dev/stdout is standard output"
            )
        if not _is_special(path):
            places.append(_place(path))
            _try(path, places[-1])
    if len(set(places)) < len(places):
        raise UsageError("two reports cannot go to one file", hint="name a file for each")


def _try(path: Path, place: Path) -> None:
    """Make a file beside the one that is meant, as ``write`` will, and remove it."""
    if is_folder(path):
        raise ConfigError(f"cannot write {path}: it is a folder", hint="name a file in it")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"cannot write {path}: no such folder, or not ours to write", hint="make the folder first"
        )
    try:
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}."):
            pass
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", hint="name another file") from None


def _place(path: Path) -> Path:
    """Return where a link leads in the end; one that leads to itself is a place like others."""
    return Path(os.path.realpath(path))


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
        # A Prometheus collector may read at any moment, and as another user.
        write_atomically(_place(path), text.encode(), mode=0o644)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _is_special(path: Path) -> bool:
    # Where a stream leads to a plain file, that is not ours to replace either: the shell has it open.
    is_stream = any(path.is_relative_to(name) for name in _STREAMS)
    return is_stream or (is_there(path) and not is_file(path) and not is_folder(path))
