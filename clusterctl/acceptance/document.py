"""Make the documents of ``accept``: from the verdicts of a run, and of what a run would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.acceptance.judge import ACCEPTED, JudgedRow, JudgedValue, worst
from clusterctl.acceptance.limits import AcceptLimits, FleetComparison, is_for
from clusterctl.acceptance.model import AcceptRow, RowStatus
from clusterctl.acceptance.on_node import ReadyNode
from clusterctl.acceptance.rules import read_rule
from clusterctl.acceptance.spread import FALSE_ALARMS
from clusterctl.documents.accept import (
    Accept,
    AcceptedNode,
    AcceptedRow,
    AcceptPlan,
    AcceptRequest,
    AcceptRowTitle,
    AcceptStatus,
    AcceptValue,
    PlannedRow,
    PlannedThreshold,
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


def planned(rows: Sequence[AcceptRow], nodes: Sequence[ReadyNode], limits: AcceptLimits) -> AcceptPlan:
    """Return the plan."""
    return AcceptPlan(rows=tuple(_planned_row(row, nodes, limits) for row in rows))


def _planned_row(row: AcceptRow, nodes: Sequence[ReadyNode], limits: AcceptLimits) -> PlannedRow:
    begun = [ready.start(row, 0) for ready in nodes]
    runs = [one for one in begun if not one.not_run and not one.not_applicable]
    hardware = tuple(dict.fromkeys(one.hardware for one in runs if one.hardware))
    return PlannedRow(
        row=row.name,
        title=row.title,
        tier=row.tier,
        nodes=tuple(one.node for one in runs),
        hardware=hardware,
        not_run={one.node: one.not_run for one in begun if one.not_run},
        not_applicable={one.node: one.not_applicable for one in begun if one.not_applicable},
        thresholds=tuple(_thresholds(row.name, hardware, limits)),
    )


def _thresholds(row: str, hardware: Sequence[str], limits: AcceptLimits) -> list[PlannedThreshold]:
    """Return the rules of a row for its hardware, then the comparisons with the fleet.

    A row may measure hardware that is known only when it runs (the link of a GPU): then all its rules are listed.
    """
    of_row = [(file, one) for file in limits.files for one in file.rules if read_rule(one.when).row == row]
    own = {read_rule(one.when).field for file, one in of_row if file is limits.site}
    of_row = [
        (file, one) for file, one in of_row if file is limits.site or read_rule(one.when).field not in own
    ]
    fitting = [(file, one) for file, one in of_row if any(is_for(file, name) for name in hardware)]
    found = [
        PlannedThreshold(
            when=one.when, verdict=RowStatus(one.verdict), hardware=file.hardware, source=one.source
        )
        for file, one in fitting or of_row
    ]
    for name in hardware or ("",):
        for field, comparison in limits.comparisons(row, name).items():
            if comparison.compare:
                found.append(_compared(row, field, comparison))
    return list(dict.fromkeys(found))


def _compared(row: str, field: str, comparison: FleetComparison) -> PlannedThreshold:
    return PlannedThreshold(
        when=f"{row}.{field} worse than the median of equal hardware by {comparison.warn:.0%} (warn) or "
        f"{comparison.fail:.0%} (fail), and by more than the noise",
        verdict=RowStatus.WARN,
        hardware=(),
        source=comparison.source,
    )
