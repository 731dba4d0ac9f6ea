"""Rows that only read facts: requirements of the hardware, GPU health, the kernel log, drift, and what a run added."""

from __future__ import annotations

from collections.abc import Iterable

from clusterctl.acceptance.model import (
    AcceptRow,
    FleetAnswer,
    FleetPlace,
    FleetProgram,
    FromFacts,
    Parsed,
    RowFinding,
    RowPlace,
    RowStatus,
    Tier,
)
from clusterctl.acceptance.rows.gpu import without_gpu
from clusterctl.documents.kinds import Effect
from clusterctl.facts.base import Reading, ReadStatus
from clusterctl.facts.model.health import Health, KernelLog
from clusterctl.facts.model.node import NodeFacts
from clusterctl.transport.base import HostMap
from clusterctl.trust import health
from clusterctl.trust.health import HealthEvent

_OF_HARDWARE = ("gpu-driver", "gpu-persistence", "fabric-manager", "rdma-link")
"""The requirements that tell whether the hardware is complete and up."""
_STATUSES = {Effect.GRAVE: RowStatus.FAIL, Effect.DOUBTFUL: RowStatus.WARN}
_NO_LOG: Reading[KernelLog] = Reading(None, ReadStatus.EMPTY)


def _findings(events: Iterable[HealthEvent]) -> tuple[RowFinding, ...]:
    return tuple(
        RowFinding(_STATUSES[event.effect], event.line) for event in events if event.effect in _STATUSES
    )


def _judged(place: RowPlace, names: tuple[str, ...], *, applies: bool = False) -> Parsed:
    """Judge requirements of one node: unmet is a failure, a warning a warning, and unknown did not run.

    ``applies``: they apply to this node, so that one that is not applicable did not run either.
    """
    # Imported here, because the names of rows are needed for completions.
    from clusterctl.requirements.base import Status
    from clusterctl.requirements.fleet.view import Fleet
    from clusterctl.requirements.judge import judge_node

    fleet = Fleet((place.node,), {place.node.name: place.facts}, {})
    judged = judge_node(place.facts, place.node, names, (), fleet=fleet)
    findings = [
        RowFinding(RowStatus.FAIL, f"{one.requirement}: {one.reason}")
        for one in judged
        if one.status is Status.UNMET
    ]
    findings += [
        RowFinding(RowStatus.WARN, f"{one.requirement}: {warning}")
        for one in judged
        for warning in one.warnings
    ]
    open_ = (Status.UNKNOWN, Status.NOT_APPLICABLE) if applies else (Status.UNKNOWN,)
    unknown = [f"{one.requirement}: {one.reason}" for one in judged if one.status in open_]
    return Parsed(findings=tuple(findings), not_run="; ".join(unknown))


def _requirements(place: RowPlace) -> Parsed:
    return _judged(place, _OF_HARDWARE)


def _gpu_health(place: RowPlace) -> Parsed:
    """Judge the health of the GPUs that nvidia-smi shows; what the requirement does not judge did not run."""
    return _judged(place, ("gpu-health",), applies=True)


def _kernel_log(place: RowPlace) -> Parsed:
    found = place.facts.health
    if found.log.value is None and found.log.status is not ReadStatus.EMPTY:
        return Parsed(not_run=f"the kernel log was not read: {found.log.detail or found.log.status.value}")
    none = Health(log=_NO_LOG, gpus=found.gpus)
    return Parsed(findings=_findings(health.growth(none, Health(log=found.log, gpus=found.gpus))))


def _without_gpu(facts: NodeFacts) -> str:
    return "" if facts.pci.nvidia_gpus else without_gpu(facts)


def _drift(place: FleetPlace) -> FleetAnswer:
    from clusterctl.facts.drift import drift

    found: dict[str, list[RowFinding]] = {node.name: [] for node in place.nodes}
    for one in drift(place.facts, place.nodes):
        for name in one.nodes:
            if name in found:
                text = f"{one.fact} {one.value}, others {one.others}"
                found[name].append(RowFinding(RowStatus.WARN, text))
    return FleetAnswer({name: Parsed(findings=tuple(those)) for name, those in found.items()})


def _errors(place: FleetPlace) -> FleetAnswer:
    """Compare the error counters of all nodes with those at the start of the run."""
    after = place.gather(frozenset({"health", "counters"}))
    before = HostMap({name: facts.health for name, facts in place.before.items()})
    known = HostMap({name: found for name, found in after.items() if name in before})
    grown = health.fleet(HostMap({name: before[name] for name in known}), known.map(lambda _, f: f.health))
    return place.judge_each(after, lambda name: Parsed(findings=_findings(grown.events.get(name, ()))))


ROWS = (
    AcceptRow(
        "requirements",
        f"requirements of the hardware are met: {', '.join(_OF_HARDWARE)}",
        Tier.SANITY,
        FromFacts(_requirements),
    ),
    AcceptRow(
        "gpu-health",
        "ECC errors, row remapping and states of each GPU",
        Tier.SANITY,
        FromFacts(_gpu_health),
        _without_gpu,
    ),
    AcceptRow(
        "kernel-log",
        "faults in the kernel log since boot: Xid, MCE, PCIe",
        Tier.SANITY,
        FromFacts(_kernel_log),
    ),
    AcceptRow(
        "drift",
        "firmware, driver, kernel and settings are equal on equal nodes",
        Tier.SANITY,
        FleetProgram(_drift),
        least_nodes=2,
    ),
)
AT_THE_END = (
    AcceptRow(
        "errors",
        "error counters, throttling and kernel log: what the run added",
        Tier.PERFORMANCE,
        FleetProgram(_errors),
        at_the_end=True,
    ),
)
