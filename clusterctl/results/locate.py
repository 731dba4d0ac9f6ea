"""Make the document of ``locate`` from what a run found, and find its names in the runs of the last 30 days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from clusterctl import run_ids, rundir
from clusterctl.documents.locate import (
    BestRate,
    CpuHeldBack,
    EndsDiffer,
    Locate,
    LocateStatus,
    NetworkBoundary,
    PairRate,
    SlowGroup,
    SlowRail,
    SlowWindow,
    SometimesSlow,
    Suspect,
    SuspectAlone,
    SuspectStatus,
    SuspectTest,
    SuspectTestStatus,
    UnlikeDevice,
)
from clusterctl.errors import ClusterctlError
from clusterctl.launch.locate import LocateRun
from clusterctl.results.model import exit_code as exit_code_of
from clusterctl.rundir import RunDir
from clusterctl.trust import cpu_quota
from clusterctl.trust.cpu_quota import HeldBack
from clusterctl.workloads.locate.cause import Examined
from clusterctl.workloads.locate.search import ALPHA
from clusterctl.workloads.locate.verdict import LocateVerdict, SuspectState

_TEST_STATUS = {
    SuspectState.NAMED: SuspectTestStatus.SLOW,
    SuspectState.CLEARED: SuspectTestStatus.WELL,
    SuspectState.OPEN: SuspectTestStatus.UNDECIDED,
}
DAYS = 30


def document(found: LocateRun, run: str) -> Locate:
    """Return the document; ``run`` is the run folder's id."""
    located = found.located
    fleet, verdict = located.fleet, located.verdict or LocateVerdict()

    def rail(place: int) -> str | None:
        return found.rails[place % len(found.rails)] if found.rails else None

    return Locate(
        run=run,
        status=_status(found),
        library=found.library,
        launcher=found.launcher,
        nodes=len(set(fleet.names)),
        ranks=sum(map(len, fleet.ranks)),
        rounds=verdict.rounds,
        windows=located.windows,
        repeated=located.repeated,
        duration_s=round(found.duration_s, 3),
        # The ranks alone, the pairs, their two ends, and the repeated rounds are a test each.
        false_alarms_per_run=(3 + bool(located.repeated)) * ALPHA,
        suspects=tuple(
            Suspect(
                nodes=tuple(fleet.names[node] for node in one.nodes), place=one.place, interface=rail(one.place),
                status=SuspectStatus(one.status.value), ratio=round(one.ratio, 4), chance=one.chance,
                confirmations=one.rounds, low_with=one.low_with, partners=one.partners,
                tests=tuple(_test(test) for test in located.examined if test.finding == one),
            )
            for one in verdict.findings
        ),
        suspects_alone=tuple(
            SuspectAlone(
                node=fleet.names[node], place=place, measure=one.measure, status=SuspectStatus(one.status.value),
                ratio=round(one.ratio, 4), chance=one.chance, windows=one.windows,
            )
            for one in located.alone
            for node, place in (fleet.where(one.rank),)
        ),
        sometimes_slow=tuple(
            SometimesSlow(
                node=fleet.names[one.node], place=one.place, interface=rail(one.place), low=one.low,
                rounds=one.rounds, fleet_share=round(one.fleet_share, 4), chance=one.chance,
            )
            for one in located.intermittent
        ),
        slow_windows=tuple(
            SlowWindow(
                window=one.window, measure=one.measure, ratio=round(one.ratio, 4),
                nodes=tuple(dict.fromkeys(fleet.names[fleet.where(rank)[0]] for rank in one.ranks)),
            )
            for one in located.low_windows
        ),
        groups=tuple(
            SlowGroup(
                place=one.place, ratio=round(one.slow_ratio, 4),
                slow=tuple(fleet.names[node] for node in one.slow), fast=tuple(fleet.names[n] for n in one.fast),
            )
            for one in verdict.groups
        ),
        boundary=None if verdict.boundary is None
        else NetworkBoundary(nodes=verdict.boundary.group, ratio=round(verdict.boundary.ratio, 4)),
        slow_rails=tuple(SlowRail(place=s.place, ratio=round(s.ratio, 4)) for s in verdict.slow_places),
        rates=tuple(
            BestRate(node=fleet.names[node], place=place, gbps=rate)
            for (node, place), rate in sorted(verdict.best.items())
        ),
        pairs=tuple(
            PairRate(nodes=(fleet.names[low], fleet.names[high]), place=place, gbps=rate)
            for ((low, high), place), rate in sorted(verdict.pairs.items())
        ),
        ends_differ=tuple(
            EndsDiffer(
                nodes=(fleet.names[one.nodes[0]], fleet.names[one.nodes[1]]), place=one.place,
                interface=rail(one.place), gbps=one.gbps,
                at_fault=fleet.names[one.at_fault] if one.at_fault is not None else None,
            )
            for one in located.apart
        ),
        differences=found.differences,
        unlike=tuple(
            UnlikeDevice(
                node=fleet.names[node], place=place, device=one.device, others=one.most, peers=one.peers
            )
            for one in located.unlike
            for node, place in (fleet.where(one.rank),)
        ),
        held_back=tuple(map(_held_back, found.held_back)),
        apart=found.apart if found.apart.pairs else None,
        gpus_not_measured=found.gpus_not_measured,
        health=found.health.part() if found.health is not None else None,
        failures=found.faults,
    )  # fmt: skip


def _test(one: Examined) -> SuspectTest:
    return SuspectTest(
        test=one.test.value, status=_TEST_STATUS[one.status], ratio=round(one.ratio, 4), chance=one.chance,
        rounds=one.rounds,
    )  # fmt: skip


def _held_back(one: HeldBack) -> CpuHeldBack:
    return CpuHeldBack(
        node=one.node, device=cpu_quota.PLACE, named=not one.is_common, ranks=one.ranks, group=one.use.group,
        cpus=round(one.use.cpus, 4), periods=one.use.periods, stopped=one.use.stopped,
        stopped_s=round(one.stopped_s, 3), elapsed_s=one.elapsed_s, what=one.what, fix=cpu_quota.FIX,
    )  # fmt: skip


def _status(found: LocateRun) -> LocateStatus:
    verdict = found.located.verdict
    if found.faults or verdict is None:
        return LocateStatus.FAILED
    if (
        verdict.named
        or found.located.intermittent
        or any(one.status is SuspectState.NAMED for one in found.located.alone)
        or any(one.at_fault is not None for one in found.located.apart)
        or any(not one.is_common for one in found.held_back)
    ):
        return LocateStatus.NAMED
    return LocateStatus.INCONCLUSIVE if verdict.is_inconclusive else LocateStatus.NONE


def exit_code(found: LocateRun) -> int:
    """Return 0 if nothing is slow, 1 if something was named or the run is inconclusive, else that of its faults."""
    return exit_code_of(found.faults) or int(_status(found) is not LocateStatus.NONE)


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
