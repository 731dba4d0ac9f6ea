"""Run the preflight ladder, from "does every node answer" to a reduction of eight bytes.

The first rung that fails shows where a launch would have hung.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from clusterctl.benchmarks.base import Fault, FaultKind, RankProof
from clusterctl.benchmarks.collective import CollectiveSweep
from clusterctl.benchmarks.sweep_sizes import check_sizes
from clusterctl.inventory import nodeset
from clusterctl.launch import failure
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.failure import Outcome
from clusterctl.launch.launches import Launches, step_of
from clusterctl.launch.plan import plan
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.request import Request
from clusterctl.launch.run import Runner
from clusterctl.text.grouping import grouped
from clusterctl.text.typed_inventory import filled
from clusterctl.text.wording import counted
from clusterctl.workloads.archive import ARCHIVE, build

RungStatus = Literal["ok", "failed", "not-needed", "not-reached"]
RUNGS = ("nodes answer", "programs", "ssh between nodes", "locked memory", "ranks start", "8 bytes")
# Each rung has little to do: one that takes longer hangs.
_LAUNCH_S = 120.0
_COLLECTIVE = "all_reduce"
_SWEEP = CollectiveSweep(min_bytes=8, max_bytes=8, step_factor=2, iters=1, warmup_iters=1)


@dataclass(frozen=True, slots=True)
class Rung:
    """Hold one rung: its name, its status, and what was found."""

    name: str
    status: RungStatus
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Climbed:
    """Hold the result of the ladder; ``faults`` are those of the rung that failed."""

    rungs: tuple[Rung, ...]
    faults: tuple[Fault, ...]
    library: str | None
    launcher: str | None
    launches: tuple[dict[str, Any], ...]


class _Fallen(Exception):
    """Signal that a rung failed, so that later rungs cannot be tried."""


class Ladder:
    """Run the ladder once on one set of nodes, with the ranks, library and launcher of a request."""

    def __init__(self, request: Request, runner: Runner, logs: Path) -> None:
        self._request = replace(
            request, training=None, collective=_COLLECTIVE, timeout_s=min(request.timeout_s, _LAUNCH_S)
        )
        self._runner = runner
        self._logs = logs
        self._rungs: list[Rung] = []
        self._faults: tuple[Fault, ...] = ()
        self._launches = Launches(runner)
        self._library: str | None = None
        self._launcher: str | None = None

    def climb(self) -> Climbed:
        """Try the rungs until one fails; problems on the nodes are returned as faults."""
        try:
            self._climb()
        except _Fallen:
            self._launches.health(self._faults, self._logs)
        left = [Rung(name, "not-reached") for name in RUNGS[len(self._rungs) :]]
        return Climbed(
            (*self._rungs, *left), self._faults, self._library, self._launcher, self._launches.documents
        )

    def _climb(self) -> None:
        answers, faults = self._runner.prepare({ARCHIVE: build()}, f"{_COLLECTIVE}_perf")
        self._rung(faults, counted(len(answers), "node"))
        chosen = plan(self._request, answers, self._runner.identity())
        launcher, program = chosen.launcher, chosen.program
        self._launcher, self._library = launcher.name, chosen.library
        words = (launcher.name, chosen.library, Path(program.words[0]).name, *chosen.notes())
        self._rung(chosen.unmet(), ", ".join(words))
        named = chosen.launch(chosen.np, ("uname", "-n"))
        self._mesh(named, chosen.answers)
        hosts = self._ranks_start(named)
        self._rung((), f"{counted(chosen.np, 'rank')}: {hosts}")
        self._eight_bytes(chosen.launch(chosen.np, _SWEEP.argv(program.words), number=1))

    def _mesh(self, plan: LaunchPlan, answers: Sequence[Readiness]) -> None:
        peers = len(plan.placements) - 1
        if not plan.launcher.over_ssh or not peers:
            why = f"{plan.launcher.name} does not use SSH between nodes" if peers else "one node"
            self._rungs += [Rung(RUNGS[2], "not-needed", why), Rung(RUNGS[3], "not-needed", why)]
            return
        mesh = self._runner.check_mesh(plan)
        self._rung(mesh.faults, f"from {plan.placements[0].node} to {counted(peers, 'peer')}")
        by_rdma = {answer.node.name for answer in answers if answer.evidence.rdma_ports}
        low = {node: limit for node, limit in mesh.memlock.items() if limit != "unlimited"}
        faults = tuple(
            Fault(
                FaultKind.MEMLOCK,
                f"a rank that {plan.placements[0].node} starts on {node} may lock only {limit} KiB: its RDMA device "
                "cannot register buffers, and the library falls back to sockets",
                node=node,
                hint=filled(
                    "run clusterctl bootstrap INVENTORY --only memlock; for containers set container.memlock"
                ),
            )
            for node, limit in low.items()
            if node in by_rdma
        )
        unread = [p.node for p in plan.placements if p.node not in mesh.memlock]
        said = [
            *((f"{limit} KiB", node) for node, limit in low.items()),
            *(("unknown", node) for node in unread),
        ]
        words = ", ".join(f"{text} on {nodeset.fold(nodes)}" for text, nodes in grouped(said).items())
        words = words or "unlimited"
        self._rung(
            faults, words + ("; enough, because these nodes use no RDMA device" if low and not faults else "")
        )

    def _ranks_start(self, plan: LaunchPlan) -> str:
        """Start ranks that print their host; return the hosts with their numbers of ranks."""
        faults, outcome = self._launch(plan, "hosts")
        hosts = {rank: text.split()[-1] for rank, text in outcome.stdout_by_rank.items() if text.split()}
        seen = [RankProof(rank, host, 0, "") for rank, host in hosts.items()]
        self._fall(faults or failure.check_ranks(seen, plan.np))
        return nodeset.fold_shares(Counter(hosts.values()))

    def _eight_bytes(self, plan: LaunchPlan) -> None:
        causes, outcome = self._launch(plan, "8-bytes")
        sweep = _SWEEP.parse(outcome.table)
        faults = failure.merge(causes, sweep.faults, failure.check_table(sweep.ranks, outcome, plan.np))
        faults = faults or failure.check_library(self._library or "", sweep.libraries)
        faults = faults or check_sizes(_SWEEP, sweep.rows, plan.np)
        took = next((row.out_of_place.time_us or row.in_place.time_us for row in sweep.rows), None)
        self._rung(faults, f"{_COLLECTIVE} correct in {took:.0f} us" if took else f"{_COLLECTIVE} correct")

    def _launch(self, plan: LaunchPlan, name: str) -> tuple[tuple[Fault, ...], Outcome]:
        step = step_of(plan, RUNGS[len(self._rungs)])
        # The table of the rungs reports what succeeded.
        outcome, causes = self._launches.follow(step, plan, self._logs / name, quiet=True)
        return causes, outcome

    def _rung(self, faults: Sequence[Fault], detail: str) -> None:
        self._fall(faults)
        self._rungs.append(Rung(RUNGS[len(self._rungs)], "ok", detail))

    def _fall(self, faults: Sequence[Fault]) -> None:
        if faults:
            self._faults = tuple(faults)
            self._rungs.append(Rung(RUNGS[len(self._rungs)], "failed", faults[0].message))
            raise _Fallen
