"""``accept-tools``: the programs that rows of ``accept`` call are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status
from clusterctl.requirements.packages import by_hand, install
from clusterctl.requirements.wording import because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "accept-tools"
TITLE = "The programs that accept calls are installed"
READS = frozenset({"rdma", "software"})
ABOUT = About(
    checks="if required: fio, stress-ng and iperf3 are installed, and perftest on nodes with RDMA devices",
    why="a row of `accept` whose program is missing does not run, and its node is then not accepted",
    bootstrap="installs the packages `fio`, `stress-ng`, `iperf3` and `perftest`",
    undo="removes the packages that bootstrap added",
    settings=("requirements.accept_tools", "requirements.packages"),
)

# Of each package a program that it brings; Debian's and RHEL's packages have the same names.
_PROGRAMS = {"fio": "fio", "stress-ng": "stress-ng", "iperf3": "iperf3"}
_WITH_RDMA = {"perftest": "ib_write_bw"}


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if all programs are on the PATH; not applicable unless the inventory requires them."""
    if not node.requirements.accept_tools.require:
        return Decision(NAME, Status.NOT_APPLICABLE, "the inventory does not require the tools of accept")
    if facts.rdma.devices.is_unknown:
        return Decision(NAME, Status.UNKNOWN, because("the list of RDMA devices", facts.rdma.devices))
    wanted = {**_PROGRAMS, **(_WITH_RDMA if facts.rdma.devices.or_else(()) else {})}
    evidence: dict[str, Json] = {program: facts.software.tool(program) for program in wanted.values()}
    missing = [package for package, program in wanted.items() if facts.software.tool(program) is None]
    if not missing:
        return Decision(NAME, Status.MET, f"{some(list(wanted))} are installed", evidence)
    reason = f"not installed: {', '.join(missing)}{by_hand(facts, ' and '.join(missing))}"
    package = install(facts, node, "Install the tools of accept", *missing)
    return Decision(NAME, Status.UNMET, reason, evidence, steps=(package,) if package else ())
