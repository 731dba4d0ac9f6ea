"""The logs of a run folder, and the most likely known cause of a failure in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from clusterctl import user_files
from clusterctl.documents.explain import KnownCause, LogLine
from clusterctl.documents.kinds import ErrorRole
from clusterctl.inventory.user_paths import is_file, is_folder
from clusterctl.launch.ranklog import LAUNCHER_LOG
from clusterctl.report.known_errors import topic_files
from clusterctl.report.known_errors.scan import Scan

_MOST_BYTES_OF_A_LOG = 4 << 20
_MOST_BYTES = 32 << 20
"""At about 15 MB per second, reading takes about two seconds."""


def logs_below(folder: Path, closed: Callable[[OSError], object] = lambda _: None) -> list[Path]:
    """Return the ``*.log`` files in and below a directory, the launcher's first in each directory.

    ``closed`` receives the error of each directory that cannot be read.
    """
    # Unlike Path.rglob, os.walk continues if a directory cannot be read or is removed meanwhile.
    there = (
        Path(inside, name)
        for inside, _, names in os.walk(folder, onerror=closed)
        for name in names
        if name.endswith(".log")
    )
    found = (path for path in there if is_file(path))
    return sorted(found, key=lambda path: (path.parent, path.name != LAUNCHER_LOG, path.name))


def cause_in(run: Path, within: Iterable[str] = ("",)) -> KnownCause | None:
    """Return the most likely known cause in the logs of a run folder, None if no log has one.

    ``within``: the logs, or the directories with them, in the run folder. Of each log at most the last 4 MiB are read,
    and 32 MiB of all; a log that cannot be read is left out.
    """
    scan = Scan(topic_files.load())
    left = _MOST_BYTES
    for part in dict.fromkeys(within):
        for log in logs_below(run / part) if is_folder(run / part) else [run / part]:
            if left <= 0:
                break
            try:
                left -= _read_end(scan, log, str(log.relative_to(run)), min(left, _MOST_BYTES_OF_A_LOG))
            except OSError:
                continue
    for found in scan.findings:
        if found.entry.role in (ErrorRole.FAULT, ErrorRole.CAUSE):
            first = found.first
            return KnownCause(
                id=found.entry.id,
                hosts=tuple(found.hosts),
                cause=found.entry.cause,
                fix=found.entry.fix,
                log=LogLine(file=first.file, line=first.number, text=first.text),
            )
    return None


def _read_end(scan: Scan, log: Path, name: str, most_bytes: int) -> int:
    """Read at most the last ``most_bytes`` of a log; return how many there were. Raise OSError."""
    with user_files.opened(log) as stream:
        skipped = max(0, os.fstat(stream.fileno()).st_size - most_bytes)
        first, at = 1, 0
        while at < skipped and (piece := stream.read(min(skipped - at, 1 << 20))):
            first += piece.count(b"\n")
            at += len(piece)
        return scan.read(name, stream, first, most_bytes)
