"""Which nodes a CPU quota held back during a run, from the kernel's counters. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from clusterctl.benchmarks.cpu_quota import QuotaUse, RankQuotas
from clusterctl.documents.kinds import Effect
from clusterctl.trust.health import HealthEvent

LEAST_PERIODS, LEAST_TIME = 0.10, 0.05
"""A quota held a rank back if it stopped the rank's cgroup in this share of the periods and of the time.

All ranks wait for the slowest one, so a rank that stands still for 5 % of the time costs up to as much. ``locate``
clears a suspect within 5 % of its controls, so less is not visible. The share of periods leaves out a rank that is
stopped once, at its start.
"""
_SAME_LIMIT = 0.95
PLACE: Final = "CPU"
FIX = (
    "raise or remove the quota: docker --cpus, the CPU limit of a pod, CPUQuota of a systemd unit or slice, "
    "the cgroup of a Slurm job"
)
_SOURCE = "Linux, Documentation/scheduler/sched-bwc.rst"


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A node whose ranks a CPU quota held back: the tightest cgroup that did so, for the rank that it stopped longest.

    ``is_common``: every rank of the run was held back by an equal quota, so none of them is slower than the others.
    """

    node: str
    ranks: tuple[int, ...]
    use: QuotaUse
    elapsed_s: float
    is_common: bool = False

    @property
    def stopped_s(self) -> float:
        """Return for how many seconds the group stood still, at most: the kernel sums over CPUs."""
        return _stopped_s(self.use)

    @property
    def what(self) -> str:
        """Return what happened, without the node."""
        use = self.use
        ranks = f"rank{'' if len(self.ranks) == 1 else 's'} {', '.join(map(str, self.ranks))}"
        return (
            f"held back: a quota of {use.cpus:.3g} CPU{'' if use.cpus == 1 else 's'} stopped {ranks} in {use.stopped} "
            f"of {use.periods} periods of {use.period_us / 1000:g} ms, for {self.stopped_s:.1f} of "
            f"{self.elapsed_s:.1f} s (cgroup {use.group})"
        )

    def event(self) -> HealthEvent:
        """Return it as an event of the node."""
        return HealthEvent(PLACE, "cpu_quota", self.what, Effect.DOUBTFUL, self.use.stopped_us, FIX, _SOURCE)


def held_back(reports: Sequence[RankQuotas | None], node_of_rank: Sequence[str]) -> tuple[HeldBack, ...]:
    """Return the nodes that a quota held back, one entry per node and cgroup, in the order of ranks."""
    found: dict[tuple[str, str], HeldBack] = {}
    limits = []
    for rank, report in enumerate(reports):
        use = _worst(report) if report is not None else None
        limits.append(use.cpus if use is not None else math.inf)
        if use is None or report is None:
            continue
        node = node_of_rank[rank]
        same = found.get((node, use.group))
        ranks = (*same.ranks, rank) if same is not None else (rank,)
        if same is not None and same.use.stopped_us >= use.stopped_us:
            found[node, use.group] = replace(same, ranks=ranks)
        else:
            found[node, use.group] = HeldBack(node, ranks, use, report.elapsed_s)
    most = max(limits, default=math.inf)
    return tuple(replace(one, is_common=one.use.cpus >= _SAME_LIMIT * most) for one in found.values())


def unread(reports: Sequence[RankQuotas | None], node_of_rank: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return by node why quotas could not be compared."""
    found: dict[str, dict[str, None]] = {}
    for node, report in zip(node_of_rank, reports, strict=False):
        for reason in report.unread if report is not None else ():
            found.setdefault(node, {})[f"CPU quota: {reason}"] = None
    return {node: tuple(reasons) for node, reasons in found.items()}


def _worst(report: RankQuotas) -> QuotaUse | None:
    """Return the tightest quota of a rank that held it back; None without one."""
    held = [
        use
        for use in report.groups
        if use.stopped >= LEAST_PERIODS * use.periods and _stopped_s(use) > LEAST_TIME * report.elapsed_s
    ]
    return min(held, key=lambda use: use.cpus, default=None)


def _stopped_s(use: QuotaUse) -> float:
    return min(use.stopped_us, use.stopped * use.period_us) / 1e6
