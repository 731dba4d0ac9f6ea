"""Build a plan from decisions: collect the steps of unmet requirements and reject contradictions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.errors import PlanError
from clusterctl.requirements.base import Decision
from clusterctl.requirements.steps import Reboot, Step


def _same(one: Step, other: Step) -> bool:
    """Return whether two steps with one target do the same; their descriptions may differ."""
    fields = [name for name in one.__dataclass_fields__ if name != "description"]
    return type(one) is type(other) and all(getattr(one, name) == getattr(other, name) for name in fields)


def join(node: str, steps: tuple[PlannedStep, ...]) -> NodePlan:
    """Return one node's plan with each target once; raise PlanError if two requirements contradict each other.

    A step of a kind that is ``per_requirement``, such as a restart, stays with each requirement.
    If any requirements need a reboot, the node reboots once, after all other steps.
    """
    taken: dict[tuple[str, ...], PlannedStep] = {}
    kept: list[PlannedStep] = []
    boots: list[PlannedStep] = []
    for planned in steps:
        step = planned.step
        if isinstance(step, Reboot):
            boots.append(planned)
            continue
        key = (planned.requirement, *step.target()) if step.per_requirement else step.target()
        earlier = taken.setdefault(key, planned)
        if earlier is planned:
            kept.append(planned)
        elif not _same(earlier.step, planned.step):
            raise PlanError(
                f"{node}: {earlier.requirement} and {planned.requirement} require different states of "
                f"{' '.join(key[1:])}",
                hint=f"leave one of the two requirements out: --skip {planned.requirement}",
            )
    return NodePlan(node, (*kept, *_one_boot(boots)))


def _one_boot(boots: list[PlannedStep]) -> tuple[PlannedStep, ...]:
    """Return the first reboot with the longest timeout of all; an empty tuple if there is no reboot."""
    if not boots:
        return ()
    first = boots[0]
    assert isinstance(first.step, Reboot)
    longest_s = max(planned.step.timeout_s for planned in boots if isinstance(planned.step, Reboot))
    return (replace(first, step=replace(first.step, timeout_s=longest_s)),)


def _untried(
    requirement: str, steps: tuple[Step, ...], tried: frozenset[PlannedStep]
) -> tuple[PlannedStep, ...]:
    """Return a requirement's steps if one of them is new; an empty tuple if this run has tried all of them.

    Steps that were tried stay in the list if another is new: a restart must follow a file that has changed again.
    A reboot does not count as new after any reboot of the node in this run, and no reboot is repeated.
    """
    planned = tuple(PlannedStep(requirement, step) for step in steps)
    boots = {(p.requirement, p.step.description) for p in tried if isinstance(p.step, Reboot)}
    new = [p for p in planned if p not in tried and not (boots and isinstance(p.step, Reboot))]
    if not new:
        return ()
    return tuple(
        p for p in planned if not isinstance(p.step, Reboot) or (requirement, p.step.description) not in boots
    )


def build(node: str, decisions: Iterable[Decision], tried: frozenset[PlannedStep] = frozenset()) -> NodePlan:
    """Return the steps of a node's unmet requirements, in the order of the decisions; pure.

    ``tried`` are the node's steps of earlier rounds: a requirement that has no other step is left out.
    """
    return join(node, tuple(p for of in decisions for p in _untried(of.requirement, of.steps, tried)))
