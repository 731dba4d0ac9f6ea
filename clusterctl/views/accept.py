"""The view of ``accept`` for CI servers and monitoring systems."""

from __future__ import annotations

from collections.abc import Iterator

from clusterctl import run_ids
from clusterctl.documents.accept import Accept, AcceptedRow, RowStatus
from clusterctl.report.text.accept import source_of
from clusterctl.report.view import Case, CaseEnd, Metric, Suite

_ENDS = {
    RowStatus.FAIL: CaseEnd.FAILURE,
    RowStatus.NOT_RUN: CaseEnd.ERROR,
    RowStatus.NOT_APPLICABLE: CaseEnd.SKIPPED,
}


def suites(found: Accept) -> Iterator[Suite]:
    """Yield a suite per node with a case per row: WARN passes, NOT RUN and unreachable are errors."""
    for node in found.nodes:
        error = node.error
        failed = () if error is None else (Case("reachable", CaseEnd.ERROR, error.kind.value, error.message),)
        yield Suite(node.name, (*failed, *map(_case, node.rows)))


def _case(row: AcceptedRow) -> Case:
    lines = [f"warning: {row.reason}"] if row.status is RowStatus.WARN else []
    lines += [
        f"{one.device + ': ' if one.device else ''}{one.field} {one.value:.6g} {one.unit}"
        + (f", wanted {one.limit} ({one.source})" if one.limit else "")
        for one in row.values
    ]
    lines += [source_of(row)] if source_of(row) else []
    end = _ENDS.get(row.status, CaseEnd.PASSED)
    return Case(row.row, end, row.status.value, row.reason, "\n".join(lines))


def metrics(found: Accept) -> Iterator[Metric]:
    """Yield the metrics; ``clusterctl_accept_row`` has a 0/1 sample per node, row and status."""
    began = run_ids.started_at(found.run)
    rows = [(node, row) for node in found.nodes for row in node.rows]
    yield Metric(
        "clusterctl_accept_timestamp_seconds",
        "When the run began, in seconds since the epoch.",
        (({}, 0 if began is None else began.timestamp()),),
    )
    yield Metric(
        "clusterctl_accept_node",
        "Whether the node is accepted.",
        tuple(({"node": node.name}, int(node.accepted)) for node in found.nodes),
    )
    yield Metric(
        "clusterctl_accept_row",
        "Whether a row has this status on a node.",
        tuple(
            ({"node": node.name, "row": row.row, "status": status.value}, int(row.status is status))
            for node, row in rows
            for status in RowStatus
        ),
    )
    yield Metric(
        "clusterctl_accept_value",
        "What a row measured on a device of a node; the device is empty for the node.",
        tuple(
            (
                {
                    "node": node.name,
                    "row": row.row,
                    "field": one.field,
                    "device": one.device,
                    "unit": one.unit,
                },
                one.value,
            )
            for node, row in rows
            for one in row.values
        ),
    )
