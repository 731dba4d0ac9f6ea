"""Signal only processes that the lab started; id and start time identify them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from clusterctl.documents.lab import ProcessMark
from clusterctl.errors import LabError

# proc(5): fields 3 (state) and 22 (starttime), counted after the command name in parentheses.
_STATE_INDEX = 0
_START_INDEX = 19


def _stat_fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def mark(pid: int) -> ProcessMark:
    """Return the mark of a running process; raise LabError if it has ended."""
    fields = _stat_fields(pid)
    if fields is None:
        raise LabError(f"process {pid} ended at once", hint="look at the node's console log")
    return ProcessMark(pid, int(fields[_START_INDEX]))


def is_alive(process: ProcessMark) -> bool:
    """Return whether exactly this process still runs (a zombie does not)."""
    fields = _stat_fields(process.pid)
    return (
        fields is not None
        and int(fields[_START_INDEX]) == process.start_ticks
        and fields[_STATE_INDEX] not in ("Z", "X")
    )


def end(process: ProcessMark, *, grace_s: float = 0.0, timeout_s: float = 20.0) -> None:
    """End exactly this process: SIGTERM, after ``grace_s`` SIGKILL; return when it has ended."""
    deadline = time.monotonic() + timeout_s
    kill_at = time.monotonic() + grace_s
    if grace_s > 0 and is_alive(process):
        _signal(process, signal.SIGTERM)
    while is_alive(process):
        if time.monotonic() >= kill_at:
            _signal(process, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise LabError(f"process {process.pid} does not end", hint=f"look at it: ps -fp {process.pid}")
        time.sleep(0.05)


def _signal(process: ProcessMark, number: signal.Signals) -> None:
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        pass


def any_has_open(folder: Path) -> bool:
    """Return whether a process that this user may inspect has an open file below ``folder``."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if link.readlink().is_relative_to(folder):
                return True
        except OSError:
            continue
    return False
