"""What a plan is: for every node the steps that are missing, each with the requirement that wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from clusterctl.errors import PlanError
from clusterctl.requirements import daemon_json
from clusterctl.requirements.base import Step

SCHEMA = "clusterctl.plan/1"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step and the requirement that wants it."""

    requirement: str
    step: Annotated[Step, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """All steps of one node, in the order in which they are applied."""

    node: str
    steps: tuple[PlannedStep, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The plans of all nodes that answered, in inventory order; a node with nothing to do has no steps."""

    nodes: tuple[NodePlan, ...]

    def of(self, node: str) -> NodePlan:
        """Return one node's plan; empty when the plan does not name it."""
        return next((plan for plan in self.nodes if plan.node == node), NodePlan(node, ()))

    @property
    def is_empty(self) -> bool:
        return not any(plan.steps for plan in self.nodes)


@cache
def _adapter() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as the JSON document of ``plan.json``; the secrets of nodes in it read as stars."""
    shown = Plan(tuple(replace(node, steps=tuple(map(_shown, node.steps))) for node in plan.nodes))
    return {"schema": SCHEMA, **_adapter().dump_python(shown, mode="json")}


def _shown(planned: PlannedStep) -> PlannedStep:
    step = planned.step
    if not daemon_json.is_written_by(step):
        return planned
    # The sum of the whole text would let a secret be guessed.
    return replace(planned, step=replace(step, content=daemon_json.recorded(step.content), made_from=None))


def from_document(document: Any) -> Plan:
    """Read ``plan.json``; raise PlanError when it is not a plan."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise PlanError(f"this is not a document of the schema {SCHEMA}", hint="start a new run")
    body = {key: value for key, value in document.items() if key != "schema"}
    try:
        return _adapter().validate_python(body)
    except ValidationError as error:
        raise PlanError(f"the plan cannot be understood: {error}", hint="start a new run") from None
