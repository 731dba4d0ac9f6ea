"""Read which CPU quotas limit this process, and how often the kernel stopped it because one was used up.

A quota may be set on any cgroup above a process. The kernel counts in each of these groups for itself, so all groups
from that of the process up to the root that is visible are read.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

_MOST_GROUPS = 32


@dataclass(frozen=True)
class CpuGroup:
    """One cgroup: its quota per period in microseconds (None: no quota), and what the kernel has counted there.

    ``counts``: the periods in which the group ran, those in which it was stopped, and for how many microseconds; None
    if the kernel does not count them.
    """

    quota_us: int | None
    period_us: int
    counts: tuple[int, int, int] | None


class CpuQuota:
    """Compare two readings of the quotas of this process; made when the measurement starts."""

    def __init__(self, proc: Path = Path("/proc/self"), root: Path = Path("/")) -> None:
        self._of = (proc, root)
        self._began = time.monotonic()
        self._before, _ = read(*self._of)

    def report(self) -> dict[str, Any]:
        """Return the groups with a quota, with what was counted before and now, and what could not be read."""
        after, unread = read(*self._of)
        elapsed_s = time.monotonic() - self._began
        groups = []
        for path, now in after.items():
            old = self._before.get(path)
            if now.quota_us is not None:
                limit = {"group": path, "quota_us": now.quota_us, "period_us": now.period_us}
                groups.append({**limit, "before": old.counts if old else None, "after": now.counts})
        return {"elapsed_s": round(elapsed_s, 3), "groups": groups, "unread": unread}


def read(proc: Path, root: Path) -> tuple[dict[str, CpuGroup], list[str]]:
    """Return the visible groups above a process by their directory, the nearest first, and what was not read.

    A machine without cgroups, or a container that shows none, has no group. ``root``: below which all paths are.
    """
    try:
        member, mounts = (proc / "cgroup").read_text(), (proc / "mountinfo").read_text()
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError) as error:
        return {}, [_why(error)]
    found: dict[str, CpuGroup] = {}
    unread = []
    for path in _directories(member, mounts):
        try:
            group = _group(root / path.lstrip("/"))
        except (OSError, ValueError) as error:
            unread.append(f"{path}: {_why(error)}")
            continue
        if group is not None:
            found[path] = group
    return found, unread


def _why(error: Exception) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)[:200]


def _directories(member: str, mounts: str) -> list[str]:
    """Return the directories of the groups, from ``/proc/self/cgroup`` and ``/proc/self/mountinfo`` (cgroups(7))."""
    paths: dict[str, str] = {}
    for line in member.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if "cpu" in controllers.split(","):
            paths["cgroup"] = name
        elif number == "0" and not controllers:
            paths["cgroup2"] = name
    # Where version 1 has the controller, version 2 may be mounted too, without it.
    version = "cgroup" if "cgroup" in paths else "cgroup2"
    path = PurePosixPath(paths.get(version, "/.."))
    if ".." in path.parts:
        return []  # outside of this cgroup namespace
    for line in mounts.splitlines():
        mount, _, filesystem = line.partition(" - ")
        words, kind = mount.split(), filesystem.split()
        if len(words) < 5 or len(kind) < 3 or kind[0] != version:
            continue
        if version == "cgroup" and "cpu" not in kind[2].split(","):
            continue
        try:
            below = path.relative_to(words[3])
        except ValueError:
            continue  # a part of the tree that this process is not in
        top = PurePosixPath(words[4])
        steps = [below, *below.parents] if below.parts else [below]
        return [str(top / step) for step in steps][:_MOST_GROUPS]
    return []


def _group(directory: Path) -> CpuGroup | None:
    """Return a group; None if it has no CPU controller."""
    if (directory / "cpu.cfs_quota_us").exists():
        quota = int((directory / "cpu.cfs_quota_us").read_text())
        period, per_us = int((directory / "cpu.cfs_period_us").read_text()), 1000
        limit = quota if quota >= 0 else None
    elif (directory / "cpu.max").exists():
        first, second = (directory / "cpu.max").read_text().split()
        period, per_us = int(second), 1
        limit = int(first) if first != "max" else None
    else:
        return None
    stat = dict(line.split() for line in (directory / "cpu.stat").read_text().splitlines())
    stopped = stat.get("throttled_usec", stat.get("throttled_time"))
    if stopped is None or "nr_periods" not in stat or "nr_throttled" not in stat:
        return CpuGroup(limit, period, None)
    return CpuGroup(
        limit, period, (int(stat["nr_periods"]), int(stat["nr_throttled"]), int(stopped) // per_us)
    )
