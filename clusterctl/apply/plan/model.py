"""Define the plan: for each node its steps, each with the requirement that needs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from clusterctl.documents.apply import Plan as PlanDocument
from clusterctl.errors import PlanError
from clusterctl.requirements.containers import daemon_json
from clusterctl.requirements.steps import Step
from clusterctl.text import model_errors

SCHEMA = PlanDocument.schema_name()


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """Pair one step with the requirement that needs it."""

    requirement: str
    step: Annotated[Step, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """List all steps of one node, in the order in which they are applied."""

    node: str
    steps: tuple[PlannedStep, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold the plans of all nodes that answered, in inventory order; a node without changes has no steps."""

    nodes: tuple[NodePlan, ...]

    def of(self, node: str) -> NodePlan:
        """Return one node's plan; an empty one if the plan does not contain the node."""
        return next((plan for plan in self.nodes if plan.node == node), NodePlan(node, ()))

    @property
    def is_empty(self) -> bool:
        return not any(plan.steps for plan in self.nodes)


@cache
def _adapter() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as the JSON document of ``plan.json``, with secrets replaced by asterisks."""
    shown = Plan(tuple(replace(node, steps=tuple(map(_shown, node.steps))) for node in plan.nodes))
    return PlanDocument(**_adapter().dump_python(shown, mode="json")).document()


def _shown(planned: PlannedStep) -> PlannedStep:
    step = planned.step
    if not daemon_json.is_written_by(step):
        return planned
    # The checksum of the whole text would let a reader guess a short secret.
    return replace(planned, step=replace(step, content=daemon_json.recorded(step.content), made_from=None))


def from_document(document: Any) -> Plan:
    """Return the plan in a ``plan.json`` document; raise PlanError if the document is not a valid plan."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise PlanError(f"the plan is not a document of the schema {SCHEMA}", hint="start a new run")
    body = {key: value for key, value in document.items() if key != "schema"}
    try:
        return _adapter().validate_python(body)
    except ValidationError as error:
        raise PlanError(
            f"the plan cannot be parsed: {model_errors.first(error)}", hint="start a new run"
        ) from None
