"""``NodeFacts``: all facts that one probe reads from a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clusterctl.facts.base import Part, Reading, ReadStatus
from clusterctl.facts.model.devices import (
    GpuFacts,
    Pci,
)
from clusterctl.facts.model.fabric import (
    GpuDirect,
    KernelModules,
    Network,
    Rdma,
)
from clusterctl.facts.model.health import Health
from clusterctl.facts.model.host import (
    ConfigLine,
    Cpu,
    Limits,
    Memory,
    RootAccess,
    System,
)
from clusterctl.facts.model.launch import (
    ContainerFacts,
    Executable,
    ImageDistributionFacts,
    LaunchFacts,
    LoginSession,
)
from clusterctl.facts.model.mpi import Mpi
from clusterctl.facts.model.python import NodePython
from clusterctl.facts.model.services import (
    Clock,
    Docker,
    FileSum,
    ManagedFile,
    Services,
    Software,
    Storage,
    Sysctl,
)
from clusterctl.facts.model.sharing import (
    Nfs,
    SshMesh,
    Versions,
)


@dataclass(frozen=True, slots=True)
class SectionNote(Part):
    """How one section of the probe ended; reports show it as evidence."""

    name: str
    status: ReadStatus
    exit_status: int | None
    error: str
    cut: bool


@dataclass(frozen=True, slots=True)
class NodeFacts(Part):
    """The facts of a node from one probe. Times are the controller's, in seconds since the epoch."""

    name: str
    gathered_at: float
    duration_s: float
    root: RootAccess
    system: System
    cpu: Cpu
    memory: Memory
    limits: Limits
    modules: KernelModules
    gpudirect: GpuDirect
    pci: Pci
    gpu: GpuFacts
    rdma: Rdma
    network: Network
    docker: Docker
    storage: Storage
    clock: Clock
    services: Services
    software: Software
    sysctls: tuple[Sysctl, ...]
    managed_files: tuple[ManagedFile, ...]
    sections: tuple[SectionNote, ...]
    host_config: tuple[ConfigLine, ...] = ()
    """Lines of sysctl.d, of the time services' configuration, and of NCCL's (/etc and the account's home)."""
    rdma_files: Reading[tuple[FileSum, ...]] = Reading(None, ReadStatus.ABSENT, "not probed")  # noqa: RUF009
    """The files below /etc/sysconfig/rdma, with their SHA-256."""
    versions: Versions = field(default_factory=Versions)
    ssh_mesh: SshMesh = field(default_factory=SshMesh)
    nfs: Nfs = field(default_factory=Nfs)
    mpi: Reading[Mpi] = Reading(None, ReadStatus.ABSENT, "not probed")  # noqa: RUF009
    python: Reading[NodePython] = Reading(None, ReadStatus.ABSENT, "not probed")  # noqa: RUF009
    health: Health = field(default_factory=Health)
    session: LoginSession | None = None
    """None, as each field below: the subject was not requested."""
    launch: LaunchFacts | None = None
    containers: ContainerFacts | None = None
    image_distribution: ImageDistributionFacts | None = None
    tool_versions: Mapping[str, Executable] | None = None
    """The requested programs that the node has, by name."""

    def sysctl(self, name: str) -> str | None:
        """Return a kernel parameter that the probe reads (``net.core.rmem_max``), or None."""
        return next((s.value for s in self.sysctls if s.name == name), None)

    def managed_file(self, path: str) -> str | None:
        """Return the text of a file that clusterctl wrote on the node, or None."""
        return next((f.text for f in self.managed_files if f.path == path), None)

    @property
    def in_vm(self) -> bool | None:
        """Whether the node is a virtual machine; None if unknown."""
        virtualization = self.system.virtualization.value
        return None if virtualization is None else virtualization.is_vm

    @property
    def in_container(self) -> bool | None:
        """Whether the node is a container; None if unknown."""
        virtualization = self.system.virtualization.value
        return None if virtualization is None else virtualization.is_container
