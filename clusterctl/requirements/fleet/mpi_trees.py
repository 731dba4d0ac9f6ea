"""Put MPICH, NCCL and nccl-tests into one directory of the nodes, which may be the one that all nodes share; pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from clusterctl.facts.model.mpi import Mpi, MpiInstallation
from clusterctl.facts.subjects.mpi import OWN_FOLDER
from clusterctl.requirements.fleet.shared_dir import mount as mounts
from clusterctl.requirements.fleet.shared_dir import wish
from clusterctl.requirements.packages import by_hand, install, manager
from clusterctl.requirements.steps import Command, PutTree, Step
from clusterctl.text.wording import some

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node
    from clusterctl.requirements.fleet.view import Fleet

_COMPILERS = {"apt": ("g++", "make"), "dnf": ("gcc-c++", "make")}
# nvcc needs about 1 GiB per job.
_JOBS = "-j4"


def folder(node: Node) -> str:
    """Return the directory that holds the trees: the one that all nodes share, or each node's own."""
    return wish.path(node) if node.requirements.shared_dir.path is not None else OWN_FOLDER


def builder(node: Node, fleet: Fleet) -> Node:
    """Return the node that fills the directory: the node itself, or of a shared one its server or the first node.

    Only nodes with the same directory and the same trees count: another would find nothing to build.
    """
    if node.requirements.shared_dir.path is None:
        return node
    nodes = (wish.server(node, fleet), *fleet.nodes)
    return next((one for one in nodes if one is not None and _trees_of(one) == _trees_of(node)), node)


def _trees_of(node: Node) -> tuple[str | None, ...]:
    """Return what a node's settings say of the shared directory and of the trees in it."""
    mpi, shared = node.requirements.mpi, node.requirements.shared_dir
    return (folder(node), shared.server, shared.export, mpi.mpich, mpi.nccl, mpi.nccl_tests)


def is_mounted(facts: NodeFacts, node: Node) -> bool:
    """Return whether the shared directory is there to be filled; in a container, its host mounts it."""
    if node.requirements.shared_dir.path is None or facts.in_container:
        return True
    own = wish.is_server(node) and wish.path(node) == wish.folder(node)
    return own or mounts.mounted_at(facts, wish.path(node)) is not None


def mpich(node: Node, mpi: Mpi) -> MpiInstallation | None:
    """Return the MPICH of the directory; None if it is not complete."""
    found = mpi.mpich
    complete = found is not None and found.mpirun is not None and found.header is not None
    return found if complete and found is not None and found.home == f"{folder(node)}/mpich" else None


def missing(node: Node, mpi: Mpi, *, gpus: bool) -> tuple[str, ...]:
    """Return the trees that the inventory names and the directory lacks, in the order in which they are built.

    ``gpus``: whether this node needs NCCL and nccl-tests.
    """
    settings, where = node.requirements.mpi, folder(node)
    lacks = []
    if settings.mpich is not None and mpich(node, mpi) is None:
        lacks.append("mpich")
    if gpus and settings.nccl is not None and mpi.nccl_header != f"{where}/nccl/build/include/nccl.h":
        lacks.append("nccl")
    if (
        gpus
        and settings.nccl_tests is not None
        and mpi.nccl_tests != f"{where}/nccl-tests/build/all_reduce_perf"
    ):
        lacks.append("nccl-tests")
    return tuple(lacks)


def lacking(node: Node, mpi: Mpi, wanted: tuple[str, ...]) -> str:
    """Return what the node must have before these trees can be built, to be installed by hand; empty if nothing."""
    found = []
    if {"nccl", "nccl-tests"} & {*wanted} and mpi.nvcc is None:
        found.append("CUDA's compiler (/usr/local/cuda/bin/nvcc)")
    if "nccl-tests" in wanted and mpi.nccl_header is None and node.requirements.mpi.nccl is None:
        found.append("NCCL's header nccl.h")
    return some(found) if found else ""


def steps(
    facts: NodeFacts, node: Node, mpi: Mpi, wanted: tuple[str, ...], found: MpiInstallation | None
) -> tuple[Step, ...] | str:
    """Return the steps that put these trees into the directory, or why there are none.

    ``found`` is the MPI to build nccl-tests with; None for the MPICH of the directory.
    """
    settings, where = node.requirements.mpi, folder(node)
    planned: list[Step] = []
    if {"nccl", "nccl-tests"} & {*wanted}:
        tools = {"make": facts.software.tool("make"), "g++": facts.software.tool("g++")}
        if not all(tools.values()):
            names = _COMPILERS.get(manager(facts) or "", ())
            package = install(facts, node, "Install make and the C++ compiler", *names)
            if package is None:
                return by_hand(facts, some([name for name, path in tools.items() if path is None]))
            planned.append(package)
    if "mpich" in wanted and settings.mpich is not None:
        planned.append(PutTree(f"Copy MPICH to {where}/mpich", settings.mpich, f"{where}/mpich"))
    cuda = str(PurePosixPath(mpi.nvcc or "/usr/local/cuda/bin/nvcc").parents[1])
    if "nccl" in wanted and settings.nccl is not None:
        tree = f"{where}/nccl"
        planned.append(PutTree(f"Copy the source of NCCL to {tree}", settings.nccl, tree))
        planned.append(
            Command(
                f"Build NCCL in {tree}",
                ("make", "-C", tree, _JOBS, "src.build", f"CUDA_HOME={cuda}"),
                None,
                guard=(
                    "test",
                    "-e",
                    f"{tree}/build/include/nccl.h",
                    "-a",
                    "-e",
                    f"{tree}/build/lib/libnccl.so",
                ),
                timeout_s=7200,
            )
        )
    if "nccl-tests" in wanted and settings.nccl_tests is not None:
        tree = f"{where}/nccl-tests"
        planned.append(PutTree(f"Copy the source of nccl-tests to {tree}", settings.nccl_tests, tree))
        planned.append(
            Command(
                f"Build nccl-tests with MPI in {tree}",
                _make(node, mpi, found, tree, cuda),
                None,
                guard=("test", "-f", f"{tree}/build/all_reduce_perf"),
                timeout_s=3000,
            )
        )
    return tuple(planned)


def _make(node: Node, mpi: Mpi, found: MpiInstallation | None, tree: str, cuda: str) -> tuple[str, ...]:
    """Return the command that builds nccl-tests, as its README says."""
    where = folder(node)
    home = f"{where}/mpich" if found is None else found.home
    include = (
        f"{home}/include"
        if found is None or found.header is None
        else str(PurePosixPath(found.header).parent)
    )
    nccl = (
        f"{where}/nccl/build"
        if node.requirements.mpi.nccl is not None
        else str(PurePosixPath(mpi.nccl_header or "/usr/include/nccl.h").parents[1])
    )
    environment = []
    # RHEL's headers are not below the prefix that nccl-tests searches.
    if include != f"{home}/include":
        environment.append(f"CPATH={include}")
    # The linker stores these directories in the programs, so that ranks need no LD_LIBRARY_PATH.
    libraries = [f"{one}/lib" for one in (nccl, home) if one.startswith(f"{where}/")]
    if libraries:
        environment.append(f"LD_RUN_PATH={':'.join(libraries)}")
    return (
        *(("env", *environment) if environment else ()),
        "make",
        "-C",
        tree,
        _JOBS,
        "MPI=1",
        f"MPI_HOME={home}",
        f"CUDA_HOME={cuda}",
        *((f"NCCL_HOME={nccl}",) if nccl != "/usr" else ()),
    )
