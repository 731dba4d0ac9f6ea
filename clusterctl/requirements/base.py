"""Define requirements: pure judges of facts, which plan the steps that meet them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol, Union

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet
    from clusterctl.requirements.steps import Step

Json = Union[None, bool, int, float, str, "list[Json]", "dict[str, Json]"]


class Status(str, Enum):
    """The possible results of a judge."""

    MET = "met"
    UNMET = "unmet"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a judge, with its reason and the evidence it is based on."""

    requirement: str
    status: Status
    reason: str
    evidence: Mapping[str, Json] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Requirement(Protocol):
    """The interface of a requirement module: ``NAME``, ``TITLE``, ``READS``, ``judge`` and ``steps``.

    ``READS`` lists the subjects (``facts.subjects``) whose facts the module uses, of this node and of others. The
    module must judge and plan the same if no other subject was probed.
    """

    NAME: str
    TITLE: str
    READS: frozenset[str]

    def judge(self, facts: NodeFacts, node: Node, fleet: Fleet) -> Verdict:
        """Return whether the node meets the requirement, considering the other nodes of its fleet; pure."""

    def steps(self, facts: NodeFacts, node: Node, fleet: Fleet) -> tuple[Step, ...]:
        """Return the steps that meet the requirement, in order; empty if it is met or cannot be fixed now; pure.

        Steps that depend on these (on a key that must exist first, or on a reboot) are planned in the next
        round, from facts gathered after this one.
        """
