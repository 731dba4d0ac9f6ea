"""The nodes that are judged together: what a requirement may know beyond the node itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every node of the inventory, and the facts of those that answered this time.

    ``nodes`` has all nodes of the inventory file in its order, those that ``--limit`` left out or that did not
    answer too: a node without facts is out of sight, not gone. ``earlier`` holds the facts that a former check
    recorded, for what only a difference over time can say (error counters).
    """

    nodes: tuple[Node, ...] = ()
    facts: Mapping[str, NodeFacts] = field(default_factory=dict)
    earlier: Mapping[str, NodeFacts] = field(default_factory=dict)

    def peers(self, name: str) -> dict[str, NodeFacts]:
        """Return the facts of all other nodes that answered, in inventory order."""
        order = [node.name for node in self.nodes] or list(self.facts)
        return {other: self.facts[other] for other in order if other != name and other in self.facts}

    @property
    def out_of_sight(self) -> tuple[Node, ...]:
        """The nodes of which nothing is known this time."""
        return tuple(node for node in self.nodes if node.name not in self.facts)
