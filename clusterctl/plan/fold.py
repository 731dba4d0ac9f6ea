"""Print a plan: one block for nodes with the same steps, one line for steps that differ only by processor."""

from __future__ import annotations

import re
from itertools import groupby

from clusterctl.inventory import nodeset
from clusterctl.plan.model import Plan, PlannedStep

_PROCESSOR = re.compile(r"\bcpu\d+\b")


def fold(plan: Plan) -> tuple[tuple[tuple[str, ...], tuple[PlannedStep, ...]], ...]:
    """Return (names, steps) for each distinct list of steps, in the order of the plan."""
    alike: dict[tuple[PlannedStep, ...], list[str]] = {}
    for node in plan.nodes:
        alike.setdefault(node.steps, []).append(node.node)
    return tuple((tuple(names), steps) for steps, names in alike.items())


def _lines(steps: tuple[PlannedStep, ...]) -> list[str]:
    """Return one line per step; adjacent steps that differ only in the processor's number share a line."""
    width = max(len(planned.requirement) for planned in steps)
    lines = []
    for (requirement, shape), group in groupby(
        steps, lambda p: (p.requirement, _PROCESSOR.sub("cpu", p.step.description))
    ):
        members = list(group)
        text = members[0].step.description
        processors = [found[0] for p in members if (found := _PROCESSOR.search(p.step.description))]
        if len(members) > 1 and len(processors) == len(members):
            text = shape.replace("cpu", nodeset.fold(processors), 1)
        lines.append(f"  {requirement.ljust(width)}  {text}")
    return lines


def render(plan: Plan) -> str:
    """Return the plan as text: for each block the folded node names, then the steps."""
    blocks = []
    for names, steps in fold(plan):
        title = nodeset.fold(list(names)) + (f" ({len(names)} nodes)" if len(names) > 1 else "")
        if not steps:
            blocks.append(f"{title}: nothing to do")
            continue
        count = f"{len(steps)} step{'s' if len(steps) > 1 else ''}"
        blocks.append("\n".join([f"{title}: {count}", *_lines(steps)]))
    return "\n\n".join(blocks)
