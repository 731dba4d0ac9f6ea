"""``mpi``: the MPI that launches need, or Open MPI with its headers, and nccl-tests built with it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from clusterctl.facts.model.mpi import Mpi, MpiInstallation
from clusterctl.facts.subjects.mpi import NCCL_TESTS
from clusterctl.inventory.model import Launcher
from clusterctl.requirements.about import About
from clusterctl.requirements.base import Decision, Json, Status, switched_off
from clusterctl.requirements.gpus import own_gpus, why_none
from clusterctl.requirements.packages import by_hand, install, manager
from clusterctl.requirements.steps import Command, PutTree, Step
from clusterctl.requirements.wording import because
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

NAME = "mpi"
TITLE = "MPI is installed, and nccl-tests is built"
READS = frozenset({"mpi", "pci", "software", "system"})
ABOUT = About(
    checks=(
        "with several nodes: the inventory's launcher finds its MPI; if required: Open MPI has its mpirun and its "
        "headers, and nccl-tests is built with it"
    ),
    why=(
        "mpirun must be on every node, at the same path; nccl-tests without MPI measures each node alone, and prints "
        "a table for each process"
    ),
    bootstrap="installs Open MPI's packages, and builds nccl-tests from the source that the inventory names",
    undo="removes the packages that bootstrap added, and the built tree",
    settings=("requirements.mpi", "requirements.packages", "mpirun"),
)

APT_PACKAGES = ("libopenmpi-dev", "openmpi-bin")
DNF_PACKAGES = ("openmpi", "openmpi-devel")
_LAUNCHERS = {
    Launcher.OPENMPI: ("Open MPI", {"apt": ("openmpi-bin",), "dnf": ("openmpi",)}),
    Launcher.MPICH: ("MPICH", {"apt": ("mpich",), "dnf": ("mpich",)}),
}
_COMPILERS = {"apt": ("g++", "make"), "dnf": ("gcc-c++", "make")}
_PROGRAM = f"{NCCL_TESTS}/build/all_reduce_perf"
# nvcc needs about 1 GiB per job.
_JOBS = "-j4"


def decide(facts: NodeFacts, node: Node, fleet: Fleet) -> Decision:
    """Return met if one Open MPI is complete and, with a source in the inventory, nccl-tests is built.

    Unless the inventory requires this, return met if the launcher of an inventory with several nodes has its MPI.
    """
    settings = node.requirements.mpi
    building = settings.require or settings.nccl_tests is not None
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
    if found is None:
        reason = f"{_incomplete(mpi)}{by_hand(facts, 'Open MPI and its headers')}"
        names = APT_PACKAGES if facts.software.manager == "apt" else DNF_PACKAGES
        package = install(facts, node, "Install Open MPI and its headers", *names)
        steps = (package,) if package is not None else ()
        return Decision(NAME, Status.UNMET, reason, evidence, steps=steps)
    has = f"Open MPI is in {found.home}, with its headers"
    if settings.nccl_tests is None:
        return Decision(NAME, Status.MET, has, evidence)
    if mpi.nccl_tests is not None:
        return Decision(NAME, Status.MET, f"{has}; nccl-tests is in {NCCL_TESTS}", evidence)
    if facts.pci.devices.value is None:
        return Decision(NAME, Status.UNKNOWN, because("the PCI tree", facts.pci.devices), evidence)
    if not own_gpus(facts):
        return Decision(NAME, Status.MET, f"{has}; nccl-tests is not built: {why_none(facts)}", evidence)
    return _unbuilt(facts, node, mpi, found, settings.nccl_tests, evidence)


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


def _unbuilt(
    facts: NodeFacts, node: Node, mpi: Mpi, found: MpiInstallation, source: str, evidence: dict[str, Json]
) -> Decision:
    """Return unmet, with the steps that build nccl-tests if its tools are there or can be installed."""
    reason = f"nccl-tests is not built in {NCCL_TESTS}"
    lacking = [
        what
        for what, path in (
            ("CUDA's compiler (/usr/local/cuda/bin/nvcc)", mpi.nvcc), ("NCCL's header nccl.h", mpi.nccl_header)
        )
        if path is None
    ]  # fmt: skip
    if mpi.nvcc is None or mpi.nccl_header is None:
        reason += (
            f", and the node lacks {some(lacking)}; install it by hand, in the version of the other nodes"
        )
        return Decision(NAME, Status.UNMET, reason, evidence)
    tools = {"make": facts.software.tool("make"), "g++": facts.software.tool("g++")}
    steps: list[Step] = []
    if not all(tools.values()):
        names = _COMPILERS.get(manager(facts) or "", ())
        package = install(facts, node, "Install make and the C++ compiler", *names)
        if package is None:
            missing = some([name for name, path in tools.items() if path is None])
            return Decision(NAME, Status.UNMET, f"{reason}{by_hand(facts, missing)}", evidence)
        steps.append(package)
    steps.append(PutTree(f"Copy the source of nccl-tests to {NCCL_TESTS}", source, NCCL_TESTS))
    steps.append(
        Command(
            f"Build nccl-tests with MPI in {NCCL_TESTS}",
            _make(found, mpi.nvcc, mpi.nccl_header),
            None,
            guard=("test", "-x", _PROGRAM),
            timeout_s=3000,
        )
    )
    return Decision(NAME, Status.UNMET, reason, evidence, steps=tuple(steps))


def _make(found: MpiInstallation, nvcc: str, nccl_header: str) -> tuple[str, ...]:
    """Return the command that builds it, as nccl-tests' README says."""
    assert found.header is not None
    include = str(PurePosixPath(found.header).parent)
    own = f"{found.home}/include"
    # RHEL's headers are not below the prefix that nccl-tests searches.
    path = ("env", f"CPATH={include}") if include != own else ()
    nccl = str(PurePosixPath(nccl_header).parents[1])
    home = (f"NCCL_HOME={nccl}",) if nccl != "/usr" else ()
    cuda = str(PurePosixPath(nvcc).parents[1])
    return (
        *path,
        "make",
        "-C",
        NCCL_TESTS,
        _JOBS,
        "MPI=1",
        f"MPI_HOME={found.home}",
        f"CUDA_HOME={cuda}",
        *home,
    )
