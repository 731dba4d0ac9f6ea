"""Verdicts as a Prometheus textfile (text exposition format 0.0.4) for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clusterctl.visible import visible

STATUSES = ("met", "unmet", "unknown", "not-applicable")


def _label(value: object) -> str:
    return visible(str(value)).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def family(name: str, what: str, samples: Iterable[tuple[dict[str, object], float]]) -> list[str]:
    """Return the lines of one gauge metric: help, type, and samples with their labels."""
    lines = [f"# HELP {name} {what}", f"# TYPE {name} gauge"]
    for labels, value in samples:
        inside = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
    return lines


def render(result: dict[str, Any], *, checked_at_s: float) -> str:
    """Return a ``clusterctl.check/1`` document as metrics; ``checked_at_s`` is in seconds since the epoch.

    ``clusterctl_requirement`` has one 0/1 sample per node, requirement and status.
    """
    nodes = result["nodes"]
    drifting: dict[str, int] = {node["name"]: 0 for node in nodes if node["reachable"]}
    for one in result.get("drift", ()):
        for name in one["nodes"]:
            drifting[name] = drifting.get(name, 0) + 1
    lines = [
        *family(
            "clusterctl_check_timestamp_seconds",
            "When the check ended, in seconds since the epoch.",
            [({}, round(checked_at_s, 3))],
        ),
        *family(
            "clusterctl_node_reachable",
            "Whether the node answered.",
            [({"node": node["name"]}, int(node["reachable"])) for node in nodes],
        ),
        *family(
            "clusterctl_requirement",
            "Whether a requirement has this status on a node.",
            [
                (
                    {"node": node["name"], "requirement": verdict["requirement"], "status": status},
                    int(verdict["status"] == status),
                )
                for node in nodes
                for verdict in node["verdicts"]
                for status in STATUSES
            ],
        ),
        *family(
            "clusterctl_requirement_warnings",
            "Number of warnings of a requirement on a node.",
            [
                (
                    {"node": node["name"], "requirement": verdict["requirement"]},
                    len(verdict.get("warnings", ())),
                )
                for node in nodes
                for verdict in node["verdicts"]
            ],
        ),
        *family(
            "clusterctl_node_drifting_facts",
            "Number of facts in which a node differs from most nodes of its kind.",
            [({"node": name}, count) for name, count in drifting.items()],
        ),
    ]
    return "\n".join(lines) + "\n"
