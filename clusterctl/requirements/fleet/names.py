"""``names``: no two machines of the fleet have the same host name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.fleet.votes import OncePerFleet
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "names"
TITLE = "Host names are unique"
READS = frozenset({"system"})
ABOUT = About(
    checks="no other machine of the inventory has the node's host name",
    why=(
        "MPI distinguishes its own node from others by the host name, and logs and metrics use it; with equal names "
        "a launch loses its daemons or counts the ranks of two nodes as one"
    ),
    bootstrap="nothing: other systems, such as DHCP and monitoring, use a host name too",
    undo="nothing to undo",
)
_SHOWN = 5


def _named(fleet: Fleet) -> dict[str, dict[str, str]]:
    """Return, by host name, the nodes that have it, each with the ID of its boot."""
    found: dict[str, dict[str, str]] = {}
    for node, facts in fleet.facts.items():
        name, boot = facts.system.hostname.value, facts.system.boot_id.value
        if name is not None:
            found.setdefault(name.lower(), {})[node] = boot or node
    return found


_nodes_by_name = OncePerFleet(_named)


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return UNMET if another machine has the same host name; NOT_APPLICABLE for an inventory of one node."""
    if len(fleet.nodes) < 2:
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory has only one node")
    own = facts.system.hostname
    if own.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the host name", own))
    evidence: dict[str, Json] = {"hostname": own.value}
    nodes = _nodes_by_name(fleet).get(own.value.lower(), {})
    # Nodes of one boot are one kernel: one machine under two names, or containers that share its network.
    boot = nodes.get(node.name, node.name)
    others = [name for name, other_boot in nodes.items() if name != node.name and other_boot != boot]
    if others:
        shown = ", ".join(others[:_SHOWN]) + (f" and {len(others) - _SHOWN} more" if others[_SHOWN:] else "")
        reason = f"the host name {own.value} is also that of {shown}; set a unique one with hostnamectl"
        return Decision(NAME, Status.UNMET, reason, evidence)
    return Decision(NAME, Status.MET, f"no other node is called {own.value}", evidence)
