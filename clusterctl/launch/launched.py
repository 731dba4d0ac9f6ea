"""Describe a launch, before and after it ran, in the form of launch.json."""

from __future__ import annotations

from typing import Any

from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.failure import Outcome


def planned(plan: LaunchPlan) -> dict[str, Any]:
    """Return what is planned for one launch in the form of launch.json; secrets appear by name only."""
    hidden = {name for name, _ in plan.secrets}
    return {
        "np": plan.np,
        "placements": [
            {"node": p.node, "host": p.host, "address": p.address, "ranks": p.ranks} for p in plan.placements
        ],
        "node_of_rank": list(plan.node_of_rank),
        "argv": list(plan.argv),
        "env": {name: "***" if name in hidden else value for name, value in plan.env},
        "timeout_s": plan.timeout_s,
    }


def document(plan: LaunchPlan, outcome: Outcome | None) -> dict[str, Any]:
    """Return one launch and its outcome in the form of launch.json."""
    return {
        **planned(plan),
        "returncode": outcome.returncode if outcome else None,
        "duration_s": round(outcome.duration_s, 3) if outcome else None,
        "deadline_passed": outcome.deadline_passed if outcome else None,
    }
