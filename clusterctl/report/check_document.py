"""The verdicts of a check as a ``clusterctl.check/1`` document, and its exit code."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterctl.documents import check
    from clusterctl.documents.words import NodeError
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import Failure, HostMap


def strictly(result: check.Check) -> check.Check:
    """Return the verdicts as ``--strict`` judges them: each difference between nodes of a kind fails."""
    from clusterctl.documents.words import StrictFailure

    failed = (
        StrictFailure(name=one.fact, nodes=one.nodes, reason=f"{one.value}, others {one.others}")
        for one in result.drift
    )
    return result.model_copy(update={"strict": tuple(failed)})


def exit_code(result: check.Check) -> int:
    """Return 0, 1 or 5 for a check; 1 also for what ``--strict`` fails."""
    summary = result.summary
    if summary.unreachable == len(result.nodes):
        return 5
    return int(bool(summary.unmet or summary.unknown or summary.unreachable or result.strict))


def verdict_part(verdict: Decision) -> check.Verdict:
    """Return one verdict as a part of documents."""
    from clusterctl.documents import check
    from clusterctl.documents.kinds import VerdictOwner as Owner

    return check.Verdict(
        requirement=verdict.requirement,
        status=verdict.status,
        owner=verdict.owner,
        reason=verdict.reason,
        no_step=verdict.no_step if verdict.owner is Owner.YOU and verdict.no_step else None,
        evidence=dict(verdict.evidence),
        warnings=tuple(verdict.warnings) or None,
    )


def error_part(failure: Failure) -> NodeError:
    """Return the failure of a node as a part of documents."""
    from clusterctl.documents.words import NodeError

    return NodeError(kind=failure.kind, message=failure.message, hint=failure.hint)


def _node_counts(verdicts: HostMap[tuple[Decision, ...]]) -> check.NodeCounts:
    from clusterctl.documents import check

    words: Counter[str] = Counter(unreachable=len(verdicts.failures))
    for outcome in verdicts.values_by_node.values():
        found = {one.owner.value if one.owner is not None else one.status.value for one in outcome}
        words.update(found & {"you", "bootstrap", "unknown"} or {"whole"})
    return check.NodeCounts(**{name: words[name] for name in check.NodeCounts.model_fields})


def document_of(
    verdicts: HostMap[tuple[Decision, ...]], deviations: tuple[check.Deviation, ...] = ()
) -> check.Check:
    """Return the verdicts and the drift of all nodes as a ``clusterctl.check/1`` document."""
    from clusterctl.documents import check
    from clusterctl.requirements.launch_ready import launch_ready
    from clusterctl.transport.base import Failure

    nodes: list[check.CheckedNode] = []
    summary = {"met": 0, "unmet": 0, "unknown": 0, "not_applicable": 0, "unreachable": 0}
    for name, outcome in verdicts.items():
        if isinstance(outcome, Failure):
            summary["unreachable"] += 1
            nodes.append(
                check.CheckedNode(name=name, reachable=False, error=error_part(outcome), verdicts=())
            )
            continue
        for verdict in outcome:
            summary[verdict.status.value.replace("-", "_")] += 1
        shown = tuple(verdict_part(verdict) for verdict in outcome)
        nodes.append(check.CheckedNode(name=name, reachable=True, error=None, verdicts=shown))
    return check.Check(
        nodes=tuple(nodes),
        summary=check.CheckSummary(**summary, nodes=_node_counts(verdicts)),
        drift=deviations,
        ready_to_launch=launch_ready(verdicts.values_by_node, len(verdicts.failures)),
    )
