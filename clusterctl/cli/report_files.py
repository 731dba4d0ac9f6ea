"""Write the files that options name: reports for people, CI and metrics collectors."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusterctl.cli import console
from clusterctl.errors import ClusterctlError, ConfigError, ResultError, UsageError
from clusterctl.inventory.user_paths import is_file, is_folder, is_there
from clusterctl.text.visible import one_line
from clusterctl.transport.answers import HANDLING_ERRORS

_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd", "/proc")


def refuse_unwritable(*paths: Path | None) -> None:
    """Check, before any node is contacted, that report files can be written.

    Raise ConfigError for a file that cannot be written, UsageError for two reports in one file.
    """
    places = []
    for path in paths:
        if path is None:
            continue
        if str(path) == "-":
            raise ConfigError(
                "a report cannot be written to '-'", hint="give a file; /dev/stdout is standard output"
            )
        if not _is_special(path):
            places.append(_place(path))
            _try(path, places[-1])
    if len(set(places)) < len(places):
        raise UsageError(
            "two reports cannot be written to one file", hint="give a different file for each report"
        )


def _try(path: Path, place: Path) -> None:
    """Create a file next to the report's, as ``write`` will, and remove it."""
    if is_folder(path):
        raise ConfigError(f"cannot write {path}: it is a directory", hint="give a file in it")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"cannot write {path}: its directory is missing or not writable",
            hint="create the directory first",
        )
    try:
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}."):
            pass
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", hint="give another file") from None


def _place(path: Path) -> Path:
    """Return the target of a link; a link that points to itself stays as it is."""
    return Path(os.path.realpath(path))


def write(path: Path, text: str) -> None:
    """Write a report atomically; raise ConfigError if that fails.

    A link stays a link. A special file (/dev/stdout, /dev/null, a named pipe) is written into, because other programs
    use it; a regular file is replaced.
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


class EachReport:
    """Write several reports, so that the failure of one does not end the others."""

    def __init__(self) -> None:
        self._errors: list[ClusterctlError] = []

    @contextmanager
    def of(self, path: Path) -> Iterator[None]:
        """Render and write one report inside this context."""
        try:
            yield
        except ClusterctlError as error:
            self._errors.append(error)
        except HANDLING_ERRORS as error:
            said = one_line(str(error), 120)
            message = f"cannot make the report {path}: {type(error).__name__}: {said}"
            hint = (
                "the other reports are complete, and the run folder has the result; report this as a defect"
            )
            self._errors.append(ResultError(message, hint=hint))

    def finish(self) -> None:
        """Report each failure; raise the first one."""
        for error in self._errors[1:]:
            console.talk(f"error: {error.message}")
        if self._errors:
            raise self._errors[0]


def _is_special(path: Path) -> bool:
    # A stream may lead to a regular file, which must not be replaced either: the shell has it open.
    is_stream = any(path.is_relative_to(name) for name in _STREAMS)
    return is_stream or (is_there(path) and not is_file(path) and not is_folder(path))
