"""Make the document of ``accept`` from the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.acceptance.judge import ACCEPTED, JudgedRow, JudgedValue, worst
from clusterctl.acceptance.model import AcceptRow, RowStatus
from clusterctl.acceptance.spread import FALSE_ALARMS
from clusterctl.documents.accept import (
    Accept,
    AcceptedNode,
    AcceptedRow,
    AcceptRequest,
    AcceptRowTitle,
    AcceptStatus,
    AcceptValue,
)
from clusterctl.documents.words import NodeError, StrictFailure
from clusterctl.errors import NodeConnectionError
from clusterctl.text.grouping import grouped
from clusterctl.transport.base import Failure

_DID_NOT_RUN = (RowStatus.NOT_RUN, RowStatus.NOT_APPLICABLE)


def document(
    run: str,
    request: AcceptRequest,
    rows: Sequence[AcceptRow],
    names: Sequence[str],
    judged: Sequence[JudgedRow],
    failures: Mapping[str, Failure],
    duration_s: float,
) -> Accept:
    """Return the document; ``names`` are all nodes, ``failures`` those that could not be reached at the start."""
    nodes = tuple(_node(name, rows, judged, failures.get(name)) for name in names)
    accepted = tuple(node.name for node in nodes if node.accepted)
    return Accept(
        run=run,
        status=AcceptStatus.ACCEPTED if len(accepted) == len(nodes) else AcceptStatus.NOT_ACCEPTED,
        tier=request.tier,
        repeats=1 + max((one.outcome.repeat for one in judged), default=0),
        duration_s=round(duration_s, 3),
        false_alarms_per_run=FALSE_ALARMS,
        site_thresholds=request.site_thresholds,
        rows=tuple(
            AcceptRowTitle(
                row=row.name, title=row.title, tier=row.tier, also_measured_by=row.also_measured_by or None
            )
            for row in rows
        ),
        nodes=nodes,
        accepted=accepted,
    )


def _node(
    name: str, rows: Sequence[AcceptRow], judged: Sequence[JudgedRow], failure: Failure | None
) -> AcceptedNode:
    mine = grouped((one.outcome.row, one) for one in judged if one.outcome.node == name)
    found = tuple(_row(row, mine[row.name]) for row in rows if row.name in mine)
    status = worst([one.status for one in found if not _is_replaced(one, rows, found)])
    if failure is not None or not found:
        status = worst([status, RowStatus.NOT_RUN])
    error = None
    if failure is not None:
        error = NodeError(kind=failure.kind, message=failure.message, hint=failure.hint)
    return AcceptedNode(name=name, status=status, accepted=status in ACCEPTED, error=error, rows=found)


def _is_replaced(one: AcceptedRow, rows: Sequence[AcceptRow], found: Sequence[AcceptedRow]) -> bool:
    """Return whether a row that did not run has a row that measures the same, and that ran."""
    if one.status is not RowStatus.NOT_RUN:
        return False
    other = next(row.also_measured_by for row in rows if row.name == one.row)
    return any(row.row == other and row.status not in _DID_NOT_RUN for row in found)


def _row(row: AcceptRow, repeats: Sequence[JudgedRow]) -> AcceptedRow:
    status = worst([one.status for one in repeats])
    first = next(one for one in repeats if one.status is status)
    outcome = first.outcome
    return AcceptedRow(
        row=row.name,
        tier=row.tier,
        status=status,
        reason=first.reason,
        repeat=outcome.repeat,
        repeats=len(repeats),
        seconds=outcome.seconds,
        tool=outcome.tool,
        command=outcome.command,
        log=outcome.log,
        values=tuple(_value(one, first) for one in first.values),
    )


def _value(one: JudgedValue, row: JudgedRow) -> AcceptValue:
    found = one.measurement
    again = [m.value for m in row.outcome.again if (m.field, m.device) == (found.field, found.device)]
    return AcceptValue(
        field=found.field,
        device=found.device,
        hardware=one.hardware,
        value=found.value,
        unit=found.unit,
        higher_is_better=found.higher_is_better,
        status=one.status,
        limit=one.limit or None,
        source=one.source or None,
        middle=one.middle,
        compared=one.compared,
        samples=found.samples,
        again=again[0] if again else None,
    )


def strictly(found: Accept) -> Accept:
    """Return the verdicts as ``--strict`` judges them: each warning fails."""
    warned = grouped(
        ((row.row, row.reason), node.name)
        for node in found.nodes
        for row in node.rows
        if row.status is RowStatus.WARN
    )
    failed = (StrictFailure(name=row, nodes=tuple(names), reason=why) for (row, why), names in warned.items())
    return found.model_copy(update={"strict": tuple(failed)})


def exit_code(found: Accept) -> int:
    """Return 0 if every node is accepted, 5 if no node could be reached, else 1; 1 also for what ``--strict`` fails."""
    if found.nodes and all(node.error is not None and not node.rows for node in found.nodes):
        return NodeConnectionError.exit_code
    return int(found.status is not AcceptStatus.ACCEPTED or bool(found.strict))
