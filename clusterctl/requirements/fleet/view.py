"""Hold the nodes that are judged together, so that judges can compare a node with its peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterctl.inventory.model import Launcher

if TYPE_CHECKING:
    from clusterctl.core_wheel import Carried
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node


@dataclass(frozen=True, slots=True)
class Fleet:
    """All nodes of the inventory, and the facts of those that answered in this run.

    ``nodes`` has all nodes of the inventory in its order, including those that ``--limit`` left out or that did not
    answer: a node without facts is unknown, not removed. ``earlier`` holds the facts of the previous check, for
    comparisons over time (error counters). ``launcher`` is what starts ranks unless a command names another one.
    ``core`` is the collective_core that the controller can bring to nodes.
    """

    nodes: tuple[Node, ...] = ()
    facts: Mapping[str, NodeFacts] = field(default_factory=dict)
    earlier: Mapping[str, NodeFacts] = field(default_factory=dict)
    launcher: Launcher = Launcher.OPENMPI
    core: Carried | None = None

    @property
    def launches_across(self) -> bool:
        """Return whether the inventory has several nodes, so that a launch starts ranks from one node on others."""
        return len(self.nodes) > 1

    def peers(self, name: str) -> dict[str, NodeFacts]:
        """Return the facts of all other nodes that answered, in inventory order."""
        order = [node.name for node in self.nodes] or list(self.facts)
        return {other: self.facts[other] for other in order if other != name and other in self.facts}
