"""How often earlier runs of ``locate`` named the same node or link: hardware that fails comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from clusterctl import run_ids, rundir
from clusterctl.documents.locate import Locate, LocateStatus
from clusterctl.errors import ClusterctlError
from clusterctl.rundir import RunDir

DAYS = 30


@dataclass(frozen=True, slots=True)
class NamedBefore:
    """A name, the runs of the last 30 days in which it was named, and the number of runs that had a verdict."""

    name: str
    times: int
    runs: int


def before(root: Path | None, present: Locate) -> tuple[NamedBefore, ...]:
    """Return what ``present`` names and earlier runs named too; damaged run folders are left out."""
    names = present.named
    earlier = [one.named for one in _earlier(root, present.run)] if names else []
    counts = {name: sum(name in one for one in earlier) for name in names}
    return tuple(NamedBefore(name, times, len(earlier)) for name, times in counts.items() if times)


def lines(found: Sequence[NamedBefore]) -> list[str]:
    """Return a line for each name."""
    return [
        f"{one.name}: also named in {one.times} of {one.runs} runs of the last {DAYS} days" for one in found
    ]


def _earlier(root: Path | None, present: str) -> Iterator[Locate]:
    since = datetime.now(timezone.utc) - timedelta(days=DAYS)
    for run in rundir.ids(root):
        began = run_ids.started_at(run)
        if run == present or run_ids.verb_of(run) != "locate" or began is None or began < since:
            continue
        folder = RunDir((root or rundir.default_root()) / run)
        try:
            found = Locate.model_validate(folder.read("results")) if folder.holds("results.json") else None
        except (ClusterctlError, ValueError):
            continue
        if found is not None and found.status is not LocateStatus.FAILED:
            yield found
