"""The verdicts of ``accept`` as a Prometheus textfile for node_exporter's textfile collector."""

from __future__ import annotations

from clusterctl import run_ids
from clusterctl.documents.accept import Accept, RowStatus
from clusterctl.report.prometheus import family


def render(found: Accept) -> str:
    """Return the document as metrics; ``clusterctl_accept_row`` has a 0/1 sample per node, row and status."""
    began = run_ids.started_at(found.run)
    lines = [
        *family(
            "clusterctl_accept_timestamp_seconds",
            "When the run began, in seconds since the epoch.",
            [({}, 0 if began is None else began.timestamp())],
        ),
        *family(
            "clusterctl_accept_node",
            "Whether the node is accepted.",
            [({"node": node.name}, int(node.accepted)) for node in found.nodes],
        ),
        *family(
            "clusterctl_accept_row",
            "Whether a row has this status on a node.",
            [
                ({"node": node.name, "row": row.row, "status": status.value}, int(row.status is status))
                for node in found.nodes
                for row in node.rows
                for status in RowStatus
            ],
        ),
        *family(
            "clusterctl_accept_value",
            "What a row measured on a device of a node; the device is empty for the node.",
            [
                (
                    {
                        "node": node.name, "row": row.row, "field": one.field, "device": one.device,
                        "unit": one.unit,
                    },
                    one.value,
                )
                for node in found.nodes
                for row in node.rows
                for one in row.values
            ],
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
