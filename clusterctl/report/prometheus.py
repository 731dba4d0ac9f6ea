"""Verdicts as a Prometheus textfile (text exposition format 0.0.4) for node_exporter's textfile collector."""

from __future__ import annotations

from typing import Any

STATUSES = ("met", "unmet", "unknown", "not-applicable")


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def render(result: dict[str, Any]) -> str:
    """Return a ``clusterctl.check/1`` document as metrics: one 0/1 sample per node, requirement and status."""
    lines = [
        "# HELP clusterctl_node_reachable Whether the node answered.",
        "# TYPE clusterctl_node_reachable gauge",
    ]
    lines += [
        f'clusterctl_node_reachable{{node="{_label(node["name"])}"}} {int(node["reachable"])}'
        for node in result["nodes"]
    ]
    lines += [
        "# HELP clusterctl_requirement The status of a requirement on a node.",
        "# TYPE clusterctl_requirement gauge",
    ]
    for node in result["nodes"]:
        for verdict in node["verdicts"]:
            for status in STATUSES:
                labels = (
                    f'node="{_label(node["name"])}",requirement="{verdict["requirement"]}",status="{status}"'
                )
                lines.append(f"clusterctl_requirement{{{labels}}} {int(verdict['status'] == status)}")
    return "\n".join(lines) + "\n"
