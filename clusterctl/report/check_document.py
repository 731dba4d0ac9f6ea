"""The verdicts of a check as a ``clusterctl.check/1`` document, and its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterctl.facts.drift import Deviation
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import HostMap

SCHEMA = "clusterctl.check/1"


def exit_code(result: dict[str, Any], nodes: int) -> int:
    """Return 0, 1 or 5 for a ``clusterctl.check/1`` document."""
    summary = result["summary"]
    if summary["unreachable"] == nodes:
        return 5
    return 1 if summary["unmet"] or summary["unknown"] or summary["unreachable"] else 0


def verdict_document(verdict: Decision) -> dict[str, Any]:
    """Return one verdict in the shape of the contract."""
    shown: dict[str, Any] = {
        "requirement": verdict.requirement,
        "status": verdict.status.value,
        "reason": verdict.reason,
        "evidence": dict(verdict.evidence),
    }
    if verdict.warnings:
        shown["warnings"] = list(verdict.warnings)
    return shown


def document_of(
    verdicts: HostMap[tuple[Decision, ...]], deviations: tuple[Deviation, ...] = ()
) -> dict[str, Any]:
    """Return the verdicts and the drift of all nodes as a ``clusterctl.check/1`` document."""
    from clusterctl.facts import drift
    from clusterctl.transport.base import Failure

    nodes: list[dict[str, Any]] = []
    summary = {"met": 0, "unmet": 0, "unknown": 0, "not_applicable": 0, "unreachable": 0}
    for name, outcome in verdicts.items():
        if isinstance(outcome, Failure):
            summary["unreachable"] += 1
            error = {"kind": outcome.kind.value, "message": outcome.message, "hint": outcome.hint}
            nodes.append({"name": name, "reachable": False, "error": error, "verdicts": []})
            continue
        for verdict in outcome:
            summary[verdict.status.value.replace("-", "_")] += 1
        shown = [verdict_document(verdict) for verdict in outcome]
        nodes.append({"name": name, "reachable": True, "error": None, "verdicts": shown})
    return {"schema": SCHEMA, "nodes": nodes, "summary": summary, "drift": drift.to_document(deviations)}
