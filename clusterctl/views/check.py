"""The view of ``check`` for CI servers and monitoring systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from clusterctl.documents.check import Check, Verdict
from clusterctl.documents.kinds import VerdictStatus
from clusterctl.report.view import Case, CaseEnd, Metric, Suite

_ENDS = {
    VerdictStatus.UNMET: CaseEnd.FAILURE,
    VerdictStatus.UNKNOWN: CaseEnd.ERROR,
    VerdictStatus.NOT_APPLICABLE: CaseEnd.SKIPPED,
}


def suites(found: Check, *, strict: bool = False) -> Iterator[Suite]:
    """Yield a suite per node with a case per requirement: unknown and unreachable are errors.

    Drift is one case of the suite ``fleet``: it fails with ``strict``; otherwise it only lists the differences.
    """
    for node in found.nodes:
        error = node.error
        failed = () if error is None else (Case("reachable", CaseEnd.ERROR, error.kind.value, error.message),)
        yield Suite(node.name, (*failed, *map(_case, node.verdicts)))
    if len(found.nodes) > 1 or found.drift:
        lines = "\n".join(
            f"{', '.join(one.nodes)}: {one.fact} {one.value}, others {one.others}" for one in found.drift
        )
        fails = bool(found.drift) and strict
        case = Case("drift", CaseEnd.FAILURE, "drift", lines) if fails else Case("drift", told=lines)
        yield Suite("fleet", (case,))


def _case(verdict: Verdict) -> Case:
    end = _ENDS.get(verdict.status, CaseEnd.PASSED)
    told = [verdict.reason] if end is CaseEnd.PASSED else []
    told += [f"warning: {text}" for text in verdict.warnings or ()]
    return Case(verdict.requirement, end, verdict.status.value, verdict.reason, "\n".join(told))


def metrics(found: Check, *, checked_at_s: float) -> Iterator[Metric]:
    """Yield the metrics; ``checked_at_s`` is in seconds since the epoch.

    ``clusterctl_requirement`` has one 0/1 sample per node, requirement and status.
    """
    judged = [(node.name, verdict) for node in found.nodes for verdict in node.verdicts]
    drifting = Counter(name for one in found.drift for name in one.nodes)
    reached = dict.fromkeys([*(node.name for node in found.nodes if node.reachable), *drifting])
    yield Metric(
        "clusterctl_check_timestamp_seconds",
        "When the check ended, in seconds since the epoch.",
        (({}, round(checked_at_s, 3)),),
    )
    yield Metric(
        "clusterctl_node_reachable",
        "Whether the node answered.",
        tuple(({"node": node.name}, int(node.reachable)) for node in found.nodes),
    )
    yield Metric(
        "clusterctl_requirement",
        "Whether a requirement has this status on a node.",
        tuple(
            (
                {"node": node, "requirement": verdict.requirement, "status": status.value},
                int(verdict.status is status),
            )
            for node, verdict in judged
            for status in VerdictStatus
        ),
    )
    yield Metric(
        "clusterctl_requirement_warnings",
        "Number of warnings of a requirement on a node.",
        tuple(
            ({"node": node, "requirement": verdict.requirement}, len(verdict.warnings or ()))
            for node, verdict in judged
        ),
    )
    yield Metric(
        "clusterctl_node_drifting_facts",
        "Number of facts in which a node differs from most nodes of its kind.",
        tuple(({"node": name}, drifting[name]) for name in reached),
    )
