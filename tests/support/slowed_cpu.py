"""Limit the CPU time of processes through a cgroup of their own (version 1 or 2)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_V1, _V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
_PERIOD_US = 100_000
# A quarter of the weight of another group, which leaves enough for the commands that end within a deadline.
_SHARES, _WEIGHT = 256, 25
MOUNT = (
    ("mount", "-t", "cgroup", "-o", "cpu", "cgroup", "/sys/fs/cgroup")
    if _V1.is_dir()
    else ("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")
)
"""Mounts the cgroups in a mount namespace whose ``/sys`` has none, as that of ``ip netns exec``."""


def missing() -> str | None:
    """Return why no cgroup can be made here, or None."""
    try:
        with group("probe", 1.0):
            return None
    except OSError as error:
        return f"no cgroup can limit CPU time here: {error}"


@contextlib.contextmanager
def group(name: str, share: float) -> Iterator[Path]:
    """Make a cgroup whose processes together use at most this share of one CPU, and return its directory."""
    quota = int(share * _PERIOD_US)
    first = _V1.is_dir()
    root = _V1 if first else _V2
    if not first:
        (root / "cgroup.subtree_control").write_text("+cpu")
    made = root / f"clusterctl-test-{name}-{os.getpid()}"
    made.mkdir()
    try:
        if first:
            (made / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (made / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (made / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
        yield made
    finally:
        deadline = time.monotonic() + 10
        while members := (made / "cgroup.procs").read_text().split():
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    (root / "cgroup.procs").write_text(member)
            if time.monotonic() > deadline:
                break
        made.rmdir()


@contextlib.contextmanager
def slowed(pid: int, share: float) -> Iterator[None]:
    """Let a process and its later children together use at most this share of one CPU, and little of a loaded one.

    Where other work leaves each process less than the quota, the quota slows nothing, and the low weight does.
    """
    with group(str(pid), share) as made:
        name, weight = ("cpu.shares", _SHARES) if _V1.is_dir() else ("cpu.weight", _WEIGHT)
        (made / name).write_text(str(weight))
        (made / "cgroup.procs").write_text(str(pid))
        yield
