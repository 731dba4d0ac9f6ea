"""The logs of a run folder, and the most likely known cause of a failure in them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from clusterctl.documents.explain import KnownCause, LogLine
from clusterctl.documents.kinds import ErrorRole
from clusterctl.inventory.user_paths import is_file, is_folder
from clusterctl.launch.ranklog import LAUNCHER_LOG
from clusterctl.report.known_errors import topic_files
from clusterctl.report.known_errors.scan import LEADING, Scan
from clusterctl.text import user_files

_OF_RANK = re.compile(r"(?:^|/)rank-([0-9]{1,7})\.log$")
_DUMP = re.compile(r"trace_rank_?[0-9]{1,7}(?:\.json)?$")
_MOST_BYTES_OF_A_LOG = 4 << 20
_MOST_BYTES = 32 << 20
"""At 10 MB per second, reading takes about three seconds."""


def logs_below(
    folder: Path, closed: Callable[[OSError], object] = lambda _: None, *, dumps: bool = False
) -> list[Path]:
    """Return the ``*.log`` files in and below a directory, the launcher's first in each directory.

    ``closed`` receives the error of each directory that cannot be read. ``dumps``: also those of torch's flight
    recorder.
    """
    # Unlike Path.rglob, os.walk continues if a directory cannot be read or is removed meanwhile.
    there = (
        Path(inside, name)
        for inside, _, names in os.walk(folder, onerror=closed)
        for name in names
        if name.endswith(".log") or (dumps and _DUMP.search(name))
    )
    found = (path for path in there if is_file(path))
    return sorted(found, key=lambda path: (path.parent, path.name != LAUNCHER_LOG, path.name))


def of_ranks(*launches: Sequence[str]) -> Callable[[str], str | None]:
    """Return a function for ``cause_in``: the node of the rank that wrote a log; None for other logs.

    ``launches`` has the nodes of the ranks of each launch; a rank that was on several nodes has none.
    """

    def node(name: str) -> str | None:
        rank = _OF_RANK.search(name)
        nodes = {own[int(rank[1])] for own in launches if int(rank[1]) < len(own)} if rank else set()
        return nodes.pop() if len(nodes) == 1 else None

    return node


def cause_in(
    run: Path, within: Iterable[str] = ("",), node_of: Callable[[str], str | None] = lambda _: None
) -> KnownCause | None:
    """Return the most likely known cause in the logs of a run folder, else the first symptom; None without either.

    ``within``: the logs, or the directories with them, in the run folder. Of each log at most the last 4 MiB are read,
    and 32 MiB of all; a log that cannot be read is left out. ``node_of`` returns the only node that wrote a log, which
    can then not name another one.
    """
    scan = Scan(topic_files.load())
    left = _MOST_BYTES
    for part in dict.fromkeys(within):
        for log in logs_below(run / part) if is_folder(run / part) else [run / part]:
            if left <= 0:
                break
            try:
                left -= _read_end(scan, log, run, min(left, _MOST_BYTES_OF_A_LOG), node_of)
            except OSError:
                continue
    for found in scan.findings:
        if found.role in (*LEADING, ErrorRole.SYMPTOM):
            first = found.first
            return KnownCause(
                id=found.entry.id,
                role=found.role,
                hosts=tuple(found.hosts),
                cause=found.entry.cause,
                fix=found.entry.fix,
                log=LogLine(file=first.file, line=first.number, text=first.text),
            )
    return None


def _read_end(scan: Scan, log: Path, run: Path, most_bytes: int, node_of: Callable[[str], str | None]) -> int:
    """Read at most the last ``most_bytes`` of a log; return how many there were. Raise OSError."""
    name = str(log.relative_to(run))
    with user_files.opened(log) as stream:
        skipped = max(0, os.fstat(stream.fileno()).st_size - most_bytes)
        first, at = 1, 0
        while at < skipped and (piece := stream.read(min(skipped - at, 1 << 20))):
            first += piece.count(b"\n")
            at += len(piece)
        node = node_of(name)
        # A rank says nothing about other nodes, also where its own is unknown.
        unknown = "" if _OF_RANK.search(name) else None
        return scan.read(name, stream, first, most_bytes, unknown if node is None else node)
