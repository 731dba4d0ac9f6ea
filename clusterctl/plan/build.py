"""From verdicts to a plan: collect the steps of what is unmet, and refuse contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from clusterctl.errors import PlanError
from clusterctl.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.base import (
    Command,
    EnableUnit,
    InstallPackages,
    LoadModule,
    PutTree,
    Requirement,
    RestartUnit,
    SetRegister,
    Status,
    Step,
    Verdict,
    WriteFile,
    WriteValue,
)

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node


def target(step: Step) -> tuple[str, ...]:
    """Return what a step changes: two steps with the same target are one change, or a contradiction."""
    if isinstance(step, WriteFile | WriteValue | PutTree):
        return ("file", step.path)
    if isinstance(step, SetRegister):
        return ("register", step.device, step.register)
    if isinstance(step, LoadModule):
        return ("module", step.module)
    if isinstance(step, EnableUnit):
        return ("unit", step.unit)
    if isinstance(step, RestartUnit):
        return ("restart", step.unit)
    if isinstance(step, InstallPackages):
        return ("packages", *step.packages)
    assert isinstance(step, Command)
    return ("command", *step.argv)


def _same(one: Step, other: Step) -> bool:
    """Whether two steps with one target do the same; what they are called does not count."""
    fields = [name for name in one.__dataclass_fields__ if name != "description"]
    return type(one) is type(other) and all(getattr(one, name) == getattr(other, name) for name in fields)


def join(node: str, steps: tuple[PlannedStep, ...]) -> NodePlan:
    """Return one node's plan with each target once; PlanError when two requirements contradict each other.

    A command or a restart belongs to its requirement, since it may have to follow that requirement's files.
    """
    taken: dict[tuple[str, ...], PlannedStep] = {}
    kept: list[PlannedStep] = []
    for planned in steps:
        key = target(planned.step)
        if isinstance(planned.step, Command | RestartUnit):
            key = (planned.requirement, *key)
        earlier = taken.setdefault(key, planned)
        if earlier is planned:
            kept.append(planned)
        elif not _same(earlier.step, planned.step):
            raise PlanError(
                f"{node}: {earlier.requirement} and {planned.requirement} want different things of "
                f"{' '.join(key[1:])}",
                hint=f"leave one of them out: --skip {planned.requirement}",
            )
    return NodePlan(node, tuple(kept))


def build(
    facts: NodeFacts,
    node: Node,
    verdicts: tuple[Verdict, ...],
    requirements: Mapping[str, Requirement],
) -> NodePlan:
    """Return the steps that a node's unmet requirements ask for, in the order of the verdicts; pure.

    ``unknown`` yields no steps: what could not be read is not changed. A requirement whose steps would find
    out (a missing tool, say) judges ``unmet``.
    """
    steps = tuple(
        PlannedStep(verdict.requirement, step)
        for verdict in verdicts
        if verdict.status is Status.UNMET
        for step in requirements[verdict.requirement].steps(facts, node)
    )
    return join(node.name, steps)
