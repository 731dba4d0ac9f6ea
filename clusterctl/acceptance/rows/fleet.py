"""Rows over all nodes at once: the launches of ``bench --preflight``, ``bench`` and ``locate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clusterctl.acceptance.model import (
    AcceptRow,
    FleetAnswer,
    FleetPlace,
    FleetProgram,
    Parsed,
    RowFinding,
    RowMeasurement,
    RowStatus,
    Tier,
)
from clusterctl.inventory import nodeset

if TYPE_CHECKING:
    from clusterctl.benchmarks.base import Fault
    from clusterctl.benchmarks.training import Training
    from clusterctl.documents.locate import Locate
    from clusterctl.launch.measured import Measured
    from clusterctl.launch.request import Request

# What launches is imported where it is used: the names of rows are needed for completions.
_TIMEOUT_S = 900.0
_LOCATE_TIMEOUT_S = 600.0
_REASON_CHARACTERS = 800
_CANNOT_START = ("missing-program", "launcher", "ssh-mesh", "node-unreachable")
_BY_EXPECTATION = {
    "fine": RowStatus.OK,
    "warn": RowStatus.WARN,
    "slow": RowStatus.FAIL,
    "impossible": RowStatus.WARN,
}


def _request(place: FleetPlace, training: Training | None = None) -> Request:
    """Return the request: every GPU, or without GPUs one rank per node, since more would share its CPUs."""
    from clusterctl.launch.request import Request

    np = None if place.on_gpus else len(place.nodes)
    return Request(
        training=training, sweep={"max_bytes": 1 << 30} if place.on_gpus else {}, np=np,
        points=None if training is None or np is None else (np,), library=None, launcher=None,
        map_by=None if place.on_gpus else "node", timeout_s=_TIMEOUT_S, oversubscribe=not place.on_gpus,
    )  # fmt: skip


def reason_of(faults: Sequence[Fault]) -> str:
    """Return what is wrong, with the nodes that share it, and what to do."""
    alike: dict[tuple[str, str | None], list[str]] = {}
    for fault in faults:
        message = fault.message.removeprefix(f"{fault.node}: ")
        nodes = alike.setdefault((message, fault.hint), [])
        nodes += [fault.node] if fault.node is not None and message != fault.message else []
    return "; ".join(
        (f"{nodeset.fold(nodes)}: " if nodes else "") + message + (f": {hint}" if hint else "")
        for (message, hint), nodes in alike.items()
    )[:_REASON_CHARACTERS]


def _of_faults(faults: Sequence[Fault]) -> FleetAnswer:
    """Return why a launch failed and what to do; one that the nodes cannot start did not run."""
    said = reason_of(faults)
    if all(fault.kind.value in _CANNOT_START for fault in faults):
        return FleetAnswer({}, not_run=said)
    return FleetAnswer({}, failed=said)


def _on_all(place: FleetPlace, parsed: Parsed) -> dict[str, Parsed]:
    return {node.name: parsed for node in place.nodes}


def preflight(place: FleetPlace) -> FleetAnswer:
    """Start ranks on all nodes and sum eight bytes."""
    from clusterctl.launch.ladder import Ladder

    with place.runner() as runner:
        climbed = Ladder(_request(place), runner, place.logs).climb()
    if climbed.faults:
        return _of_faults(climbed.faults)
    return FleetAnswer(_on_all(place, Parsed(version=_version(climbed.launcher, climbed.library))))


def _version(launcher: str | None, library: str | None) -> str:
    return f"{library} started by {launcher}"


def collective(place: FleetPlace) -> FleetAnswer:
    """Measure a verified all_reduce, and compare it with what the links allow."""
    from clusterctl.results import proofs
    from clusterctl.trust.expectation import JUDGED_BYTES

    measured = _measured(place, _request(place))
    if measured.faults or measured.sweep is None:
        return _of_faults(measured.faults)
    rows = proofs.speeds(measured)
    size, best = max(rows, key=lambda row: row[1])
    large = "busbw_gbps" if size >= JUDGED_BYTES else "short_busbw_gbps"
    expected = proofs.expected(measured, rows)
    status = _BY_EXPECTATION.get(expected.verdict) if expected else None
    findings = (RowFinding(status, expected.reason),) if expected and status else ()
    value = RowMeasurement(large, best, "GB/s", higher_is_better=True, hardware=_shape(measured))
    return FleetAnswer(
        _on_all(place, Parsed((value,), (), findings, _version(measured.launcher, measured.library)))
    )


def _shape(measured: Measured) -> str:
    return f"{measured.hardware or 'unknown'} x {len(measured.ranks)}"


def _measured(place: FleetPlace, request: Request) -> Measured:
    from clusterctl.launch.measure import Measurement

    with place.runner() as runner:
        return Measurement(request, runner, place.logs, place.say).run()


def training(place: FleetPlace) -> FleetAnswer:
    """Train ResNet50 on all nodes, and name the ranks that hold up the others."""
    from clusterctl.benchmarks.training import Training
    from clusterctl.results import proofs

    measured = _measured(place, _request(place, Training(model="resnet50")))
    if measured.faults or not measured.points:
        return _of_faults(measured.faults)
    last = measured.points[-1]
    host_of = {rank.rank: rank.host for rank in measured.ranks}
    node_of = dict(enumerate(measured.launches[-1]["node_of_rank"]))
    slow: dict[str, list[RowFinding]] = {}
    for one in (proofs.of_repeat(measured).stragglers or {}).get(str(last.point.np), ()):
        node = node_of.get(one.rank, host_of.get(one.rank, ""))
        text = f"rank {one.rank} is {one.loss:.0%} slower than the median rank"
        slow.setdefault(node, []).append(RowFinding(RowStatus.WARN, text))
    value = RowMeasurement(
        f"{last.run.sample}s_per_s", last.point.samples_per_s, f"{last.run.sample}s/s", higher_is_better=True,
        hardware=_shape(measured),
    )  # fmt: skip
    version = _version(measured.launcher, measured.library)
    return FleetAnswer(
        {n.name: Parsed((value,), (), tuple(slow.get(n.name, ())), version) for n in place.nodes}
    )


def locate(place: FleetPlace) -> FleetAnswer:
    """Measure rounds of pairs of all nodes, and name the slow node, rail or link."""
    from clusterctl.launch import locate as locating
    from clusterctl.results import locate as located

    asked = locating.request(None, None, None, _LOCATE_TIMEOUT_S)
    with place.runner() as runner:
        found = locating.run(asked, runner, place.logs, place.say)
    if found.faults:
        return _of_faults(found.faults)
    version = _version(found.launcher, found.library)
    return answer_of(located.document(found, ""), [node.name for node in place.nodes], version)


def answer_of(document: Locate, nodes: Sequence[str], version: str) -> FleetAnswer:
    """Return what ``locate`` says about each node; a run that is inconclusive says nothing about any."""
    named, at_fault = document.named_nodes, document.at_fault
    links = [name for name in document.named if name not in named]
    answers = {}
    for node in nodes:
        findings = []
        if node in at_fault:
            text = "it reports other rates than its partners in locate, which agree with each other"
            findings.append(RowFinding(RowStatus.FAIL, text))
        elif node in named:
            findings.append(RowFinding(RowStatus.FAIL, "locate names this node as slow"))
        findings += [
            RowFinding(RowStatus.WARN, f"the link {link} is slow")
            for link in links
            if node in link.split(" - ")
        ]
        answers[node] = Parsed((), (), tuple(findings), version)
    if document.status.value == "inconclusive":
        groups = (
            f"; {nodeset.fold(one.slow)} are {1 - one.ratio:.0%} slower than {nodeset.fold(one.fast)}"
            for one in document.groups
        )
        unknown = "locate is inconclusive: so many nodes are slow that the healthy group is unknown"
        return FleetAnswer(answers, not_run=unknown + "".join(groups))
    return FleetAnswer(answers)


ROWS = (
    AcceptRow(
        "preflight",
        "ranks start on all nodes, and 8 bytes are summed correctly",
        Tier.VALIDATION,
        FleetProgram(preflight),
    ),
    AcceptRow(
        "collective",
        "all_reduce over all nodes, verified",
        Tier.PERFORMANCE,
        FleetProgram(collective),
        least_nodes=2,
    ),
    AcceptRow(
        "locate",
        "pairs of all nodes: the slow node, rail or link",
        Tier.PERFORMANCE,
        FleetProgram(locate),
        least_nodes=3,
    ),
    AcceptRow(
        "training",
        "ResNet50 over all nodes, and the rank that is slow",
        Tier.STRESS,
        FleetProgram(training),
    ),
)
