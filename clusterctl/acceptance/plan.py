"""What a run would do: the rows of each node, and the thresholds that apply to its hardware."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.acceptance.limits import AcceptLimits, FleetComparison, is_for
from clusterctl.acceptance.model import AcceptRow, RowStatus
from clusterctl.acceptance.on_node import ReadyNode
from clusterctl.acceptance.rules import read_rule
from clusterctl.documents.accept import AcceptPlan, PlannedRow, PlannedThreshold


def document(rows: Sequence[AcceptRow], nodes: Sequence[ReadyNode], limits: AcceptLimits) -> AcceptPlan:
    """Return the plan."""
    return AcceptPlan(rows=tuple(_row(row, nodes, limits) for row in rows))


def _row(row: AcceptRow, nodes: Sequence[ReadyNode], limits: AcceptLimits) -> PlannedRow:
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
