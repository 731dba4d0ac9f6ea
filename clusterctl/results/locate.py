"""Make the document of ``locate`` from what a run found."""

from __future__ import annotations

from clusterctl.documents.locate import (
    BestRate,
    Locate,
    LocateStatus,
    NetworkBoundary,
    SlowGroup,
    SlowRail,
    SometimesSlow,
    Suspect,
    SuspectAlone,
    SuspectStatus,
)
from clusterctl.launch.locate import LocateRun
from clusterctl.results.model import exit_code as exit_code_of
from clusterctl.results.model import fault_part
from clusterctl.workloads.locate.search import ALPHA
from clusterctl.workloads.locate.verdict import LocateVerdict, SuspectState


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
        # The ranks alone, the pairs, and the repeated rounds are a test each.
        false_alarms_per_run=(2 + bool(located.repeated)) * ALPHA,
        suspects=tuple(
            Suspect(
                nodes=tuple(fleet.names[node] for node in one.nodes), place=one.place, interface=rail(one.place),
                status=SuspectStatus(one.status.value), ratio=round(one.ratio, 4), chance=one.chance,
                confirmations=one.rounds, low_with=one.low_with, partners=one.partners,
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
        failures=tuple(fault_part(fault) for fault in found.faults),
    )  # fmt: skip


def _status(found: LocateRun) -> LocateStatus:
    verdict = found.located.verdict
    if found.faults or verdict is None:
        return LocateStatus.FAILED
    if (
        verdict.named
        or found.located.intermittent
        or any(one.status is SuspectState.NAMED for one in found.located.alone)
    ):
        return LocateStatus.NAMED
    return LocateStatus.INCONCLUSIVE if verdict.is_inconclusive else LocateStatus.NONE


def exit_code(found: LocateRun) -> int:
    """Return 0 if nothing is slow, 1 if something was named or the run is inconclusive, else that of its faults."""
    return exit_code_of(found.faults) or int(_status(found) is not LocateStatus.NONE)


def named_nodes(document_: Locate) -> tuple[str, ...]:
    """Return the nodes that were named, each once: which end of a link is slow is left to the operator."""
    alone = [one.node for one in document_.suspects_alone if one.status is SuspectStatus.NAMED]
    pairs = [one.nodes[0] for one in document_.suspects
             if one.status is SuspectStatus.NAMED and len(one.nodes) == 1]  # fmt: skip
    return tuple(dict.fromkeys([*alone, *pairs, *(one.node for one in document_.sometimes_slow)]))


def named(document_: Locate) -> tuple[str, ...]:
    """Return what was named: nodes, then links as ``gpu01 - gpu02``."""
    links = [" - ".join(one.nodes) for one in document_.suspects
             if one.status is SuspectStatus.NAMED and len(one.nodes) == 2]  # fmt: skip
    return (*named_nodes(document_), *dict.fromkeys(links))
