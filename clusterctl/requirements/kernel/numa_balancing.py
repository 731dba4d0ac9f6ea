"""``numa-balancing``: the kernel does not move pages between NUMA nodes under running jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.kernel import sysctl
from clusterctl.requirements.kernel.sysctl import Wanted
from clusterctl.requirements.wording import because

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "numa-balancing"
TITLE = "Automatic NUMA balancing is off"
READS = frozenset({"configuration", "cpu", "system"})
ABOUT = About(
    checks="the kernel does not move pages of running ranks",
    why=(
        "processes that are bound to the NUMA node of their GPU gain nothing from moved pages, and the "
        "page faults slow down their communication threads"
    ),
    bootstrap="sets `kernel.numa_balancing` to 0, now and at boot",
    undo="writes the former value back, and removes the file",
)

PATH = "/etc/sysctl.d/90-clusterctl-numa.conf"
WANTED = (Wanted("kernel.numa_balancing", "0", "exact"),)


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return MET when the parameter is 0; NOT_APPLICABLE with one NUMA node or a kernel without balancing."""
    if facts.in_container:
        return Decision(NAME, Status.NOT_APPLICABLE, "this is a container: NUMA balancing is set on its host")
    reading, nodes = facts.cpu.numa_balancing, facts.cpu.numa_nodes
    evidence: dict[str, Json] = {
        "numa_balancing": reading.value,
        "numa_nodes": None if nodes.value is None else len(nodes.value),
    }
    if nodes.value is not None and len(nodes.value) <= 1:
        return Decision(NAME, Status.NOT_APPLICABLE, "there is only one NUMA node", evidence)
    if reading.value is None:
        if reading.status.value in ("absent", "empty"):
            reason = "the kernel has no NUMA balancing (kernel.numa_balancing does not exist)"
            return Decision(NAME, Status.NOT_APPLICABLE, reason, evidence)
        return Decision(NAME, Status.UNKNOWN, because("kernel.numa_balancing", reading), evidence)
    warnings = sysctl.overriding(facts, PATH, WANTED)
    if reading.value != 0:
        # Not only 1: the value 2 is the tiering mode (Linux 5.18), which moves pages as well.
        reason = f"kernel.numa_balancing is {reading.value}: pages move between NUMA nodes under running jobs"
        if sysctl.read_only(facts):
            reason += "; /proc/sys is read-only here, so it must be set on the host"
            return Decision(NAME, Status.UNKNOWN, reason, evidence, warnings)
        return Decision(
            NAME, Status.UNMET, reason, evidence, warnings, sysctl.steps(facts, NAME, PATH, WANTED)
        )
    if sysctl.not_kept(facts, PATH, WANTED):
        reason = f"{PATH} will turn NUMA balancing on at the next boot"
        return Decision(
            NAME, Status.UNMET, reason, evidence, warnings, sysctl.steps(facts, NAME, PATH, WANTED)
        )
    return Decision(NAME, Status.MET, "kernel.numa_balancing is 0", evidence, warnings)
