"""Start the launches of one measurement one after the other, and keep what each did and what befell the nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clusterctl.benchmarks.base import Fault
from clusterctl.facts.model.health import Health
from clusterctl.launch import failure, kernel_log
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.failure import Outcome
from clusterctl.launch.launched import document
from clusterctl.launch.run import Runner
from clusterctl.launch.viewer import Step
from clusterctl.transport.base import HostMap
from clusterctl.trust import cpu_quota, health
from clusterctl.trust.health import FleetHealth, HealthEvent
from clusterctl.trust.usage import RankUsage


def step_of(plan: LaunchPlan, benchmark: str) -> Step:
    """Return what the viewer shows of a launch."""
    return Step(benchmark, plan.np, len(plan.placements), plan.launcher.name, plan.timeout_s)


class Launches:
    """Run launches and record each in the form of launch.json, with the health of the nodes before and after."""

    def __init__(self, runner: Runner, starting: Callable[[LaunchPlan], None] = lambda _: None) -> None:
        """Prepare for launches; ``starting`` is called with each of them before it starts."""
        self._runner = runner
        self._starting = starting
        self._documents: list[dict[str, Any]] = []
        self._before: HostMap[Health] | None = None
        self._pids: dict[str, set[int]] = {}
        self._program = ""
        self._held_back: list[tuple[str, HealthEvent]] = []
        self._unread: dict[str, tuple[str, ...]] = {}

    @property
    def documents(self) -> tuple[dict[str, Any], ...]:
        """Return the launches so far, in the form of launch.json."""
        return tuple(self._documents)

    def run(self, plan: LaunchPlan, step: Step, logs: Path) -> tuple[Outcome | None, tuple[Fault, ...]]:
        """Run a measured launch; without an outcome, SSH between its nodes does not work."""
        self._starting(plan)
        faults = self.unmeshed(plan)
        if faults:
            self._documents.append(document(plan, None))
            return None, faults
        return self.follow(step, plan, logs)

    def additional(self, plan: LaunchPlan, title: str, logs: Path) -> tuple[Outcome, tuple[Fault, ...]]:
        """Run a launch that explains the result of a measured one."""
        self._starting(plan)
        return self.follow(step_of(plan, title), plan, logs)

    def unmeshed(self, plan: LaunchPlan) -> tuple[Fault, ...]:
        """Return why SSH between the nodes does not work, for a launcher that needs it."""
        return self._runner.check_mesh(plan).faults if plan.launcher.over_ssh else ()

    def follow(
        self, step: Step, plan: LaunchPlan, logs: Path, *, quiet: bool = False
    ) -> tuple[Outcome, tuple[Fault, ...]]:
        """Run a launch while the viewer shows it; ``quiet``: the viewer reports no success."""
        if self._before is None:
            self._before = self._runner.health()
        causes: tuple[Fault, ...] | None = None
        self._runner.viewer.starting(step)
        try:
            outcome = self._runner.run(plan, logs)
            causes = failure.classify(plan, outcome)
        finally:
            self._runner.viewer.ended(succeeded=causes == () and not quiet)
        self._documents.append(document(plan, outcome))
        for node, ids in kernel_log.pids(plan, outcome).items():
            self._pids.setdefault(node, set()).update(ids)
        self._program = step.benchmark if plan.foreign else plan.program[0]
        return outcome, causes

    def note_quotas(self, plan: LaunchPlan, used: Sequence[RankUsage]) -> None:
        """Keep what the ranks of a launch reported about their CPU quotas."""
        quotas = {one.rank: one.quotas for one in used}
        reports = [quotas.get(rank) for rank in range(plan.np)]
        self._held_back += [
            (one.node, one.event()) for one in cpu_quota.held_back(reports, plan.node_of_rank)
        ]
        self._unread |= cpu_quota.unread(reports, plan.node_of_rank)

    def health(self, faults: Sequence[Fault], logs: Path) -> FleetHealth | None:
        """Compare the health of the nodes that had ranks with the reading before the first launch.

        After a failure, keep in ``logs`` the lines of the kernel log of the nodes named by the faults, or of all nodes
        if none is named, that prove a cause.
        """
        if self._before is None:
            return None
        used = {placement["node"] for launch in self._documents for placement in launch["placements"]}
        before, after = (
            HostMap({name: found for name, found in reading.items() if name in used})
            for reading in (self._before, self._runner.health())
        )
        if faults:
            named = {fault.node for fault in faults if fault.node is not None} or used
            kernel_log.write(logs, sorted(named), before, after, self._pids, self._program)
        return health.fleet(before, after).including(self._held_back, self._unread)
