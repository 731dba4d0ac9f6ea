"""``mpi``: the MPI that launches need, or Open MPI with its headers, and nccl-tests built with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.model.mpi import Mpi, MpiInstallation
from clusterctl.inventory.model import Launcher
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status, switched_off
from clusterctl.requirements.fleet import mpi_trees
from clusterctl.requirements.fleet.shared_dir.requirement import NAME as SHARED_DIR
from clusterctl.requirements.gpus import own_gpus, why_none
from clusterctl.requirements.packages import by_hand, install, manager
from clusterctl.requirements.wording import because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "mpi"
TITLE = "MPI is installed, and nccl-tests is built"
READS = frozenset({"mpi", "nfs", "pci", "software", "storage", "system"})
ABOUT = About(
    checks=(
        "with several nodes: the inventory's launcher finds its MPI; if required: Open MPI has its mpirun and its "
        "headers, or the nodes have the MPICH that the inventory names, and NCCL and nccl-tests are built"
    ),
    why=(
        "mpirun must be on every node, at the same path; nccl-tests without MPI measures each node alone, and prints "
        "a table for each process"
    ),
    bootstrap=(
        "installs Open MPI's packages; puts the MPICH, NCCL and nccl-tests that the inventory names into the shared "
        "directory once, or into /opt of each node"
    ),
    undo="removes the packages that bootstrap added, and the trees",
    settings=("requirements.mpi", "requirements.shared_dir", "requirements.packages", "mpirun"),
)

APT_PACKAGES = ("libopenmpi-dev", "openmpi-bin")
DNF_PACKAGES = ("openmpi", "openmpi-devel")
_TITLES = {"mpich": "MPICH", "nccl": "NCCL", "nccl_tests": "nccl-tests"}
_LAUNCHERS = {
    Launcher.OPENMPI: ("Open MPI", {"apt": ("openmpi-bin",), "dnf": ("openmpi",)}),
    Launcher.MPICH: ("MPICH", {"apt": ("mpich",), "dnf": ("mpich",)}),
}


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if one MPI is complete and, with sources in the inventory, NCCL and nccl-tests are built.

    Unless the inventory requires this, return met if the launcher of an inventory with several nodes has its MPI.
    """
    settings = node.requirements.mpi
    named = settings.mpich or settings.nccl or settings.nccl_tests
    building = settings.require or named is not None
    if not building and settings.require is False:
        return switched_off(NAME, "requirements.mpi.require")
    if not building and (why := _unneeded(fleet)):
        return Decision(NAME, Status.NOT_APPLICABLE, why)
    if facts.mpi.is_unknown:
        return Decision(NAME, Status.UNKNOWN, because("the list of MPI installations", facts.mpi))
    mpi = facts.mpi.or_else(Mpi())
    evidence: dict[str, Json] = {
        "installations": [one.home for one in mpi.installations], "nvcc": mpi.nvcc, "nccl_header": mpi.nccl_header,
        "nccl_tests": mpi.nccl_tests,
    }  # fmt: skip
    if not building:
        return _launching(facts, node, mpi, fleet.launcher, evidence)
    found = next((one for one in mpi.installations if one.mpirun and one.header), None)
    if settings.mpich is not None:
        found = mpi_trees.mpich(node, mpi)
    elif found is None:
        reason = f"{_incomplete(mpi)}{by_hand(facts, 'Open MPI and its headers')}"
        names = APT_PACKAGES if facts.software.manager == "apt" else DNF_PACKAGES
        package = install(facts, node, "Install Open MPI and its headers", *names)
        steps = (package,) if package is not None else ()
        return Decision(NAME, Status.UNMET, reason, evidence, steps=steps)
    return _trees(facts, node, fleet, mpi, found, evidence)


def _trees(
    facts: NodeFacts,
    node: Node,
    fleet: Fleet,
    mpi: Mpi,
    found: MpiInstallation | None,
    evidence: dict[str, Json],
) -> Decision:
    """Decide about the trees that the inventory names; ``found`` is the MPI, None while MPICH is missing."""
    settings, where = node.requirements.mpi, mpi_trees.folder(node)
    is_shared = node.requirements.shared_dir.path is not None
    named = [name for name in ("nccl", "nccl_tests") if getattr(settings, name) is not None]
    if named and not is_shared and facts.pci.devices.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", facts.pci.devices), evidence)
    wanted = mpi_trees.missing(node, mpi, gpus=is_shared or bool(named and own_gpus(facts)))
    title = "MPICH" if settings.mpich is not None else "Open MPI"
    warnings: tuple[str, ...] = ()
    if settings.mpich is not None and fleet.launcher is not Launcher.MPICH:
        warnings = ("Open MPI cannot start programs of this MPICH: set `launcher: mpich` in the inventory",)
    if not wanted and found is not None:
        built = [_TITLES[name] for name in named]
        reason = f"{title} is in {found.home}, with its headers"
        if built and (is_shared or own_gpus(facts)):
            reason += f"; {some(built)} {'is' if len(built) == 1 else 'are'} in {where}"
        elif built:
            reason += f"; {some(built)} {'is' if len(built) == 1 else 'are'} not built: {why_none(facts)}"
        return Decision(NAME, Status.MET, reason, evidence, warnings)
    lacks = some([_TITLES[name.replace("-", "_")] for name in wanted])
    reason = f"{lacks} {'is' if len(wanted) == 1 else 'are'} not in {where}"
    if not mpi_trees.is_mounted(facts, node):
        return Decision(
            NAME, Status.UNMET, f"{reason}, which is not mounted", evidence, warnings, follows=SHARED_DIR
        )
    builder = mpi_trees.builder(node, fleet)
    if builder.name != node.name:
        seen = builder.name in fleet.facts
        reason += f" yet; {builder.name}, which fills it, " + (
            "comes first" if seen else "was not checked in this run"
        )
        return Decision(NAME, Status.UNMET, reason, evidence, warnings, follows=NAME if seen else "")
    by_person = mpi_trees.lacking(node, mpi, wanted)
    if by_person:
        reason += f", and the node lacks {by_person}; install it by hand, in the version of the other nodes"
        return Decision(NAME, Status.UNMET, reason, evidence, warnings)
    planned = mpi_trees.steps(facts, node, mpi, wanted, found)
    if isinstance(planned, str):
        return Decision(NAME, Status.UNMET, reason + planned, evidence, warnings)
    return Decision(NAME, Status.UNMET, reason, evidence, warnings, planned)


def _unneeded(fleet: Fleet) -> str:
    """Return why launches on this inventory's nodes need no MPI; empty if they need it."""
    if not fleet.launches_across:
        return "the inventory has no other node, and ranks of one node need no MPI"
    if fleet.launcher not in _LAUNCHERS:
        return f"the inventory's launcher is {fleet.launcher.value}, which needs no MPI"
    return ""


def _launching(
    facts: NodeFacts, node: Node, mpi: Mpi, launcher: Launcher, evidence: dict[str, Json]
) -> Decision:
    """Return met if a launch finds an mpirun: the one that the inventory names, the launcher's, or else MPICH's."""
    if node.mpirun is not None:
        if mpi.named is not None:
            return Decision(NAME, Status.MET, f"the inventory's mpirun is {mpi.named}", evidence)
        reason = f"the inventory's mpirun {node.mpirun} was not found; install it, or correct `mpirun`"
        return Decision(NAME, Status.UNMET, reason, evidence)
    open_mpi = next((one.mpirun for one in mpi.installations if one.mpirun), None)
    if launcher is Launcher.OPENMPI and open_mpi is not None:
        return Decision(NAME, Status.MET, f"Open MPI's mpirun is {open_mpi}", evidence)
    if mpi.hydra is not None:
        return Decision(NAME, Status.MET, f"MPICH's launcher is {mpi.hydra}", evidence)
    title, packages = _LAUNCHERS[launcher]
    package = install(facts, node, f"Install {title}", *packages.get(manager(facts) or "", ()))
    reason = f"{title} is not installed{by_hand(facts, title)}"
    return Decision(NAME, Status.UNMET, reason, evidence, steps=(package,) if package is not None else ())


def _incomplete(mpi: Mpi) -> str:
    if not mpi.installations:
        return "Open MPI is not installed"
    lacks = [
        f"{one.home} lacks {some([name for name, path in (('mpirun', one.mpirun), ('mpi.h', one.header)) if not path])}"
        for one in mpi.installations
    ]
    return f"Open MPI is incomplete: {some(lacks)}"
