"""Judge whether every node has what a launch needs, before anything can hang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from clusterctl import core_wheel
from clusterctl.benchmarks.base import Fault, FaultKind
from clusterctl.benchmarks.collective import sibling
from clusterctl.errors import LaunchError
from clusterctl.facts.model.launch import MeshKey
from clusterctl.facts.model.python import InstalledLibrary, is_old_torch
from clusterctl.facts.subjects.python import INTERPRETER
from clusterctl.inventory import nodeset
from clusterctl.inventory.model import Node
from clusterctl.launch import foreign_library
from clusterctl.launch.environment import Library
from clusterctl.launch.launchers import mpi_version
from clusterctl.launch.launchers.mpi_version import TITLES, Family, MpiVersion
from clusterctl.text.grouping import grouped
from clusterctl.text.typed_inventory import filled
from clusterctl.trust.gpudirect import Evidence
from clusterctl.trust.links import NodeLinks


@dataclass(frozen=True, slots=True)
class Needs:
    """Hold which programs a launch uses on every node."""

    mpirun: Family | None = None
    srun: bool = False
    torch: bool = False
    instead_of_torch: str | None = None
    """How to do without torch, if that is possible."""
    perf: bool = False
    program: str = "all_reduce_perf"
    """The perf program's name, for messages."""
    collective_core: str | None = None
    """How to do without collective_core if the ranks need it; None if they do not."""
    gpus: str | None = None
    """The library that needs a GPU on every node; None if none does."""
    library: Library | None = None
    """The library that ranks load; of those of others, every node's Python must have it."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Hold what a launch uses of one node's facts. Programs are absolute paths; None: not found."""

    node: Node
    host: str
    uid: int
    cores: int
    gpus: int
    interface: str | None
    interface_address: str | None
    interfaces: str
    ssh_accepted_on: str | None
    ssh_port: int | None
    mpirun: str | None
    mpirun_version: str
    python: str | None
    python_version: str | None
    torch: str | None
    perf: str | None
    core_perf: str | None
    ports: frozenset[int]
    host_keys: tuple[str, ...]
    """The host keys that the other nodes shall expect: type and key."""
    identity: str | None
    known_hosts: str | None
    cpu_model: str | None = None
    srun: str | None = None
    slurm_nodes: tuple[str, ...] = ()
    """The names of Slurm's nodes, as sinfo prints them on this node."""
    pyxis: bool = False
    """Whether srun has the options of Pyxis on this node."""
    enroot: str | None = None
    library: InstalledLibrary | None = None
    """The requested library of others."""
    hydra: str | None = None
    hydra_version: str = ""
    links: NodeLinks | None = None
    evidence: Evidence = field(default_factory=Evidence)
    """What the node has for GPUDirect RDMA."""
    nccl: tuple[str, ...] = ()
    """The versions of NCCL on its disk."""
    mesh_keys: tuple[MeshKey, ...] = ()
    """The account's keys for logins to other nodes, in the order in which ssh tries them."""
    imex: bool = False
    """Whether its NVLinks may lead to other nodes."""

    def mpi(self, family: Family) -> tuple[str, MpiVersion] | None:
        """Return the path and version of this family's mpirun, None if it was not found."""
        for path, said in ((self.mpirun, self.mpirun_version), (self.hydra, self.hydra_version)):
            version = mpi_version.read(said)
            if path is not None and version is not None and version.family == family:
                return path, version
        return None

    @property
    def slots(self) -> int:
        """Return how many ranks the node takes: `slots` of the inventory, else its GPUs, else its cores."""
        if self.node.slots is not None:
            return self.node.slots
        gpus = self.gpus if self.node.gpus is None else self.node.gpus
        return gpus or self.cores

    @property
    def slots_are_cores(self) -> bool:
        """Tell whether the slots are the node's cores: the inventory sets no `slots`, and the node has no GPU."""
        return self.node.slots is None and not (self.gpus if self.node.gpus is None else self.node.gpus)

    @property
    def fabric_address(self) -> str:
        """Return the address for ranks on other nodes: the one on the chosen interface, else ``ssh_address``."""
        return self.interface_address or self.ssh_address

    @property
    def ssh_address(self) -> str:
        """Return the address on which other nodes reach this one over SSH.

        They cannot use the controller's forwarded ports and jump hosts. They use this node's address on the chosen
        interface, else the address on which it accepted the controller's connection.
        """
        for address in (self.interface_address, self.ssh_accepted_on):
            if address and (not address.startswith("127.") or address == self.node.address):
                return address
        return self.node.address


def interface_of(node: Node) -> str | None:
    """Return the interface that the node's selector names, None without one; raise LaunchError for an exclusion."""
    if node.interfaces is None:
        return None
    if node.interfaces.first is None:
        raise LaunchError(
            f"socket_ifname {node.socket_ifname!r} of {node.name} only excludes an interface",
            hint="set socket_ifname to the interface to use: a launch needs its address",
        )
    return node.interfaces.first


def judge(answers: Sequence[Readiness], needs: Needs) -> tuple[Fault, ...]:
    """Return one fault for each need that a node does not meet, and each node whose MPI differs from the first's."""
    faults = tuple(fault for answer in answers for fault in _judge(answer, needs))
    if faults or not answers:
        return faults
    if needs.srun:
        return tuple(_slurm(answers))
    if needs.mpirun is None:
        return faults
    return tuple(_differing(answers, needs.mpirun))


def unlike_torch(answers: Sequence[Readiness]) -> str | None:
    """Return a warning if nodes have different torch versions, whose bundled libraries may not connect; else None."""
    by_version = grouped((answer.torch or "not installed", answer.node.name) for answer in answers)
    if len(by_version) < 2:
        return None
    said = "; ".join(f"{version} on {nodeset.fold(names)}" for version, names in by_version.items())
    return f"torch differs between nodes, so ranks may hang: {said}"


def _slurm(answers: Sequence[Readiness]) -> Iterator[Fault]:
    """Yield faults of Slurm: the launching node needs srun, and Slurm the same node names as the inventory."""
    first = answers[0]
    if first.srun is None or not first.slurm_nodes:
        why = "srun not found" if first.srun is None else f"{first.srun} gets no answer from slurmctld"
        yield Fault(
            FaultKind.MISSING_PROGRAM,
            f"{first.node.name}: {why}",
            node=first.node.name,
            hint="put a node where sinfo works first in the inventory, or choose another --launcher",
        )
        return
    for answer in answers:
        if answer.node.name not in first.slurm_nodes:
            yield Fault(
                FaultKind.MISSING_PROGRAM,
                f"{answer.node.name}: Slurm has no node of this name; its nodes: {nodeset.fold(first.slurm_nodes)}",
                node=answer.node.name,
                hint="use slurm.conf's node names in the inventory: clusterctl inventory import --from slurm",
            )


def _differing(answers: Sequence[Readiness], family: Family) -> Iterator[Fault]:
    """Yield a fault for each node whose mpirun differs: daemons must have the same version and path on all nodes."""
    first = answers[0]
    here = first.mpi(family)
    for answer in answers[1:]:
        there = answer.mpi(family)
        if here is None or there is None or (_folder(here[0]), here[1]) == (_folder(there[0]), there[1]):
            continue
        yield Fault(
            FaultKind.MISSING_PROGRAM,
            f"{answer.node.name}: {there[0]} is {there[1]}, but {first.node.name} launches with {here[0]}, {here[1]}",
            node=answer.node.name,
            hint="all nodes of a launch need the same version at the same path: install it there, "
            "or set its path with `mpirun` in the inventory",
        )


def _folder(path: str) -> str:
    folder = path.rpartition("/")[0]
    # /bin is a link to /usr/bin on current systems.
    return "/usr/bin" if folder == "/bin" else folder


def _bootstrap() -> str:
    return filled("run clusterctl bootstrap INVENTORY --only python")


def _install_core(answer: Readiness) -> str:
    """Return what installs collective_core for the Python of a node's ranks."""
    node = answer.node
    if node.connection == "local" and node.python is None:
        return core_wheel.INSTALL
    if node.python not in (None, INTERPRETER):
        return f"install it there: {answer.python or node.python} -m pip install collective_core"
    return _bootstrap() if core_wheel.carried() else f"{core_wheel.INSTALL}; then {_bootstrap()}"


def _judge(answer: Readiness, needs: Needs) -> list[Fault]:
    node = answer.node
    faults: list[Fault] = []

    def missing(message: str, hint: str) -> None:
        faults.append(Fault(FaultKind.MISSING_PROGRAM, f"{node.name}: {message}", node=node.name, hint=hint))

    if node.socket_ifname and answer.interface is None:
        missing(
            f"network interface {interface_of(node)} not found; the node has: {answer.interfaces}",
            "fix socket_ifname in the inventory",
        )
    if needs.mpirun is not None and answer.mpi(needs.mpirun) is None:
        title = TITLES[needs.mpirun]
        if answer.mpirun is None:
            missing(
                f"mpirun not found ({node.mpirun})" if node.mpirun else f"{title} not found",
                f"install {title} on every node"
                + (
                    filled(" (requirement mpi: clusterctl bootstrap INVENTORY --only mpi)")
                    if needs.mpirun == "openmpi"
                    else ""
                )
                + ", or set the path of its mpirun with `mpirun` in the inventory",
            )
        else:
            found = mpi_version.read(answer.mpirun_version)
            shown = found or answer.mpirun_version.strip() or "a program that does not print its version"
            missing(
                f"{answer.mpirun} is {shown}, not {title}",
                f"install {title}, set its mpirun's path with `mpirun` in the inventory, or choose another --launcher",
            )
    if needs.torch and answer.python is None:
        missing(
            f"{node.python or 'python3'} not found",
            f"{_bootstrap()}, or set `python` in the inventory to a Python that has torch",
        )
    elif needs.torch and answer.python_version is None:
        missing(
            f"{answer.python} does not run, or lacks parts of its standard library (as python3-minimal does)",
            "install python3 completely, or set `python` in the inventory to a Python that has torch",
        )
    elif needs.torch and answer.torch is None:
        missing(
            f"torch is not installed for {answer.python}",
            "install torch 2.4 or newer there, set `python` in the inventory to a Python that has it, or "
            "set requirements.python.packages: [torch] and "
            + _bootstrap()
            + (f"; or {needs.instead_of_torch}" if needs.instead_of_torch else ""),
        )
    elif needs.torch and is_old_torch(answer.torch):
        missing(
            f"torch {answer.torch} of {answer.python} is too old for bench's programs",
            "use torch 2.4 or newer; run your own script on an older one with launch",
        )
    python = answer.python or node.python or "python3"
    if (
        needs.library is not None
        and (why := foreign_library.missing(needs.library, answer.library, python)) is not None
    ):
        missing(*why)
    # A program that the inventory names decides itself what it needs.
    if needs.gpus and not answer.gpus and not (needs.perf and node.all_reduce_perf):
        missing(
            f"--library {needs.gpus} needs GPUs, and nvidia-smi finds none",
            filled(
                "run clusterctl check INVENTORY --only gpu-driver, or choose --library gloo or --library ccore"
            ),
        )
    if needs.collective_core and answer.core_perf is None:
        missing(
            f"collective_core is not installed for {answer.python}"
            if answer.python
            else f"{node.python or 'python3'} not found, which would have collective_core",
            f"{_install_core(answer)}; or {needs.collective_core}",
        )
    if needs.perf and answer.perf is None and (node.all_reduce_perf or answer.core_perf is None):
        missing(
            f"{needs.program} not found"
            + (f" ({sibling(node.all_reduce_perf, needs.program)})" if node.all_reduce_perf else ""),
            "install nccl-tests or collective_core there, or set the path with `all_reduce_perf` in the inventory",
        )
    return faults
