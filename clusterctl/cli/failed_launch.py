"""Print the known cause of a failed launch from its own logs, as ``explain`` would."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl import user_files
from clusterctl.cli import console

if TYPE_CHECKING:
    from clusterctl.report.known_errors.scan import Scan

LAUNCHER_LOG = "launcher.log"
_MOST_BYTES_OF_A_LOG = 4 << 20
_MOST_BYTES = 32 << 20
"""At about 15 MB per second, reading takes about two seconds."""


def logs_below(folder: Path) -> list[Path]:
    """Return the logs in and below a directory, the launcher's first in each; unreadable directories are left out."""
    found = [
        Path(inside, name) for inside, _, names in os.walk(folder) for name in names if name.endswith(".log")
    ]
    return sorted(found, key=lambda path: (path.parent, path.name != LAUNCHER_LOG, path.name))


def say_cause(run: Path) -> None:
    """Print to stderr the most likely known cause in the logs of a run folder, if there is one, and ``explain``.

    Of each log at most the last 4 MiB are read, and 32 MiB of all; a log that cannot be read is left out.
    """
    from clusterctl.report.known_errors import topic_files
    from clusterctl.report.known_errors.scan import Scan
    from clusterctl.report.text import explained

    logs = logs_below(run)
    if not logs:
        return
    scan = Scan(topic_files.load())
    left = _MOST_BYTES
    for log in logs:
        if left <= 0:
            break
        try:
            left -= _read_end(scan, log, str(log.relative_to(run)), min(left, _MOST_BYTES_OF_A_LOG))
        except OSError:
            continue
    for line in explained.cause_lines(scan.findings):
        console.talk(line)
    console.talk(f"hint: for other errors in the logs: clusterctl explain {run}")


def _read_end(scan: Scan, log: Path, name: str, most_bytes: int) -> int:
    """Read at most the last ``most_bytes`` of a log; return how many there were. Raise OSError."""
    with user_files.opened(log) as stream:
        skipped = max(0, os.fstat(stream.fileno()).st_size - most_bytes)
        first, at = 1, 0
        while at < skipped and (piece := stream.read(min(skipped - at, 1 << 20))):
            first += piece.count(b"\n")
            at += len(piece)
        return scan.read(name, stream, first, most_bytes)
