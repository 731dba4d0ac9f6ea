"""Define requirements: pure functions that decide, from facts, whether a node is as it must be and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Union

from clusterctl.documents import kinds

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.about import About
    from clusterctl.requirements.fleet.view import Fleet
    from clusterctl.requirements.steps import Step

Json = Union[None, bool, int, float, str, "list[Json]", "dict[str, Json]"]


Status = kinds.VerdictStatus
Owner = kinds.VerdictOwner


@dataclass(frozen=True, slots=True)
class Decision:
    """What a requirement decides about one node: whether it is met, why, on which evidence, and what to change.

    ``steps`` meet the requirement, in order. Only an unmet requirement has steps: what is met needs no change, and a
    state that could not be read is not changed. If steps would make the state readable (install a missing tool, for
    example), the status is unmet. Raises ValueError for steps with another status.

    An unmet requirement without steps is left to a person. ``no_step`` says why there is no step, if the reason does
    not. ``follows`` names the requirement whose steps come first, if steps are possible once it is met; its own name
    stands for its steps on other nodes.
    """

    requirement: str
    status: Status
    reason: str
    evidence: Mapping[str, Json] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    no_step: str = ""
    follows: str = ""

    def __post_init__(self) -> None:
        if self.steps and self.status is not Status.UNMET:
            raise ValueError(
                f"{self.requirement}: a requirement that is {self.status.value} must have no steps"
            )

    @property
    def owner(self) -> Owner | None:
        """Return who meets the requirement; None if it is not unmet."""
        if self.status is not Status.UNMET:
            return None
        return Owner.BOOTSTRAP if self.steps or self.follows else Owner.YOU


SWITCHED_OFF = "switched_off_by"
"""The name of the evidence that holds the key of the inventory that switches a requirement off."""


def switched_off(requirement: str, key: str) -> Decision:
    """Return the decision of a requirement that the operator switched off by a key of the inventory."""
    return Decision(requirement, Status.NOT_APPLICABLE, f"switched off by {key}: false", {SWITCHED_OFF: key})


class Requirement(Protocol):
    """The interface of a requirement module: ``NAME``, ``TITLE``, ``READS``, ``ABOUT`` and ``decide``.

    ``READS`` lists the subjects (``facts.subjects``) whose facts the module uses, of this node and of others. The
    module must decide the same if no other subject was probed.
    """

    NAME: str
    TITLE: str
    READS: frozenset[str]
    ABOUT: About

    def decide(self, facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
        """Decide whether the node meets the requirement, considering the other nodes of its fleet; pure.

        The steps are those that are possible now. Steps that depend on them (on a key that must exist first, or on a
        reboot) are planned in the next round, from facts gathered after this one.
        """
