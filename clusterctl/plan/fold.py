"""A plan as a person reads it: nodes with the same steps are one block."""

from __future__ import annotations

from clusterctl.inventory import nodeset
from clusterctl.plan.model import Plan, PlannedStep


def fold(plan: Plan) -> tuple[tuple[tuple[str, ...], tuple[PlannedStep, ...]], ...]:
    """Return (names, steps) for every distinct list of steps, in the order in which the plan has them."""
    alike: dict[tuple[PlannedStep, ...], list[str]] = {}
    for node in plan.nodes:
        alike.setdefault(node.steps, []).append(node.node)
    return tuple((tuple(names), steps) for steps, names in alike.items())


def render(plan: Plan) -> str:
    """Return the plan as text: per block the folded node names, then one line per step."""
    blocks = []
    for names, steps in fold(plan):
        title = nodeset.fold(list(names)) + (f" ({len(names)} nodes)" if len(names) > 1 else "")
        if not steps:
            blocks.append(f"{title}: nothing to do")
            continue
        width = max(len(planned.requirement) for planned in steps)
        lines = [f"  {planned.requirement.ljust(width)}  {planned.step.description}" for planned in steps]
        blocks.append("\n".join([f"{title}: {len(steps)} step{'s' if len(steps) > 1 else ''}", *lines]))
    return "\n\n".join(blocks)
