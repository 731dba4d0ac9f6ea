"""Settings of individual requirements: the required state, and the changes that bootstrap may make."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from clusterctl.inventory.field_types import (
    Address,
    FilePath,
    GitSource,
    IndexUrl,
    NodeName,
    NumberText,
    PackageName,
    PciSelector,
    PipRequirement,
    RequirementName,
)
from clusterctl.inventory.frozen_model import Model


class AcsSettings(Model):
    """The PCIe ports that ``acs`` covers, and whether bootstrap may change those of a virtual machine."""

    in_vm: Literal["leave", "disable"] = "leave"
    """In a virtual machine, ACS isolates passed-through devices: ``leave`` keeps it, ``disable`` clears it."""
    gpu_devices: tuple[PciSelector, ...] = ()
    """PCI devices that count as GPUs: ``class:0302``, ``10de:*`` or an address; empty: NVIDIA GPUs."""
    nic_devices: tuple[PciSelector, ...] = ()
    """PCI devices that count as RDMA NICs; empty: those with an RDMA device."""
    persist: bool = True
    """Install a systemd unit that clears the redirection at every boot."""


class PeermemSettings(Model):
    """The GPUDirect RDMA mechanism, and the source of nv_peer_mem if it must be built."""

    mechanism: Literal["auto", "dma-buf", "nvidia-peermem", "nv_peer_mem", "none"] = "auto"
    """The required mechanism; ``auto``: any that works; ``none``: not applicable."""
    source: str | None = None
    """Directory or tarball on this machine with the source of an out-of-tree module, for ``nv_peer_mem``."""
    git: GitSource | None = None
    """Git repository and tag, branch or commit (``URL#REF``) from which nodes fetch it, unless ``source`` is set."""
    module: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$")] = "nv_peer_mem"
    """The name of the module that this source builds."""


class RdmaLinkSettings(Model):
    """Required state of a node's RDMA ports."""

    min_rate_gbps: float | None = Field(default=None, gt=0)
    """Minimum rate of each port in Gb/s; unset: the rate is not checked."""
    require: bool | None = None
    """True: unmet on a node without an RDMA device; false: not checked; unset: not applicable without a device."""


class DockerSettings(Model):
    """Whether docker is required, and which package to install."""

    require: bool = True
    """False: the requirement is not applicable."""
    source: Literal["distribution", "docker"] = "distribution"
    """Source of the packages: the distribution (not for the RHEL family), or docker's own repository."""
    package: PackageName | None = None
    """The package to install instead of the one that ``source`` selects."""
    memlock: Literal["leave", "unlimited"] = "leave"
    """``unlimited``: containers may lock memory without an option on their command line (default-ulimits)."""


class GpuDriverSettings(Model):
    """The required NVIDIA driver, and whether bootstrap may install it."""

    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+){0,2}$")] | None = None
    """The version, or its first parts (``570``); unset: the version of the other nodes."""
    flavour: Literal["any", "open", "proprietary"] = "any"
    """The kernel modules that the driver must have."""
    install: Literal["never", "distribution", "nvidia"] = "never"
    """Source from which bootstrap may install a missing driver; ``never``: bootstrap does not install one."""


class ContainerToolkitSettings(Model):
    """Whether containers must have access to the GPUs, and how."""

    require: bool | None = None
    """Whether the toolkit is required; unset: on nodes with GPUs if docker is required."""
    cdi: bool | None = None
    """Keep a CDI specification that matches the driver. Unset: create one if docker has no other way to provide GPUs,
    or if ``container.gpus`` is ``cdi``; if docker has the runtime ``nvidia``, only warn about a missing one."""


class NetworkBufferSettings(Model):
    """Socket buffers and queues of the kernel for many TCP streams."""

    require: bool = True
    """False: the requirement is not applicable."""
    sysctls: dict[Annotated[str, StringConstraints(pattern=r"^net\.[a-z0-9_.]+$")], NumberText] = Field(
        default_factory=dict
    )
    """Values to use instead of clusterctl's defaults, by name; a single number is a minimum."""


class ClusterFileSettings(Model):
    """The file that lists the nodes for a topology-aware library."""

    path: Annotated[str, StringConstraints(pattern=r"^/etc/sysconfig/rdma/[A-Za-z0-9_][A-Za-z0-9._-]*$")] = (
        "/etc/sysconfig/rdma/cluster"
    )
    """Path of the file on every node; the probe reads only the files of this directory."""
    source: FilePath | None = None
    """File on this machine with the required content (at most 1 MiB of UTF-8 text)."""
    content: Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=1 << 20)] | None = None
    """The required content, instead of ``source``; without either, the file is not checked."""


class SharedDirSettings(Model):
    """A directory that all nodes share over NFS."""

    path: Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]+$")] | None = None
    """Mount point on every node; unset: no shared directory is required."""
    server: NodeName | None = None
    """The node that exports the directory; set either ``server`` or ``export``."""
    export: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.\[\]:-]+:/[A-Za-z0-9._/-]*$")] | None = (
        None
    )
    """An existing export: ``host:/path``."""
    folder: Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]+$")] | None = None
    """The directory on the server; unset: the same as ``path``."""
    squash_root: bool | None = None
    """Map root of other nodes to an unprivileged user (root_squash); unset: true unless the login user is root."""
    options: tuple[
        Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(=[A-Za-z0-9_.:-]+)?$")], ...
    ] = ()
    """Mount options in addition to clusterctl's own, such as ``nconnect=8``; ``vers=3`` replaces the version 4.2
    that is set for ``server``."""


class SshMeshSettings(Model):
    """Whether the nodes can log in to each other, as launchers that start on a node need."""

    require: bool | None = None
    """False: not checked; otherwise each node must be able to log in to the inventory's other nodes."""
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")] = "mesh"
    """Name of the keys and files; nodes in several inventories need a different name in each."""
    keys_from_here: bool = True
    """Accept a node's key only from that node's own addresses."""
    also_from: tuple[Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$")], ...] = ()
    """Further addresses or networks to accept the keys from, if addresses are translated (NAT)."""
    pty: bool = False
    """Allow a terminal, for interactive logins from node to node; launchers do not need it."""


class TimeSyncSettings(Model):
    """Maximum clock offset, and the time servers."""

    require: bool = True
    """False: the requirement is not applicable."""
    max_offset_s: float = Field(default=1.0, gt=0)
    """Maximum offset in seconds of a node's clock from this machine's (without the round trip) and other nodes'."""
    servers: tuple[Address, ...] = ()
    """Time servers to write into the configuration; empty: the distribution's."""


class MpiSettings(Model):
    """Whether the nodes must have MPI, and the MPICH, NCCL and nccl-tests to put on them.

    With ``shared_dir``, one node puts them into that directory for all nodes; otherwise each node has them in /opt."""

    require: bool | None = None
    """True: each node must have Open MPI with its headers; false: only if another setting here is set; unset: with
    several nodes, each must have the MPI that the inventory's ``launcher`` needs."""
    mpich: FilePath | None = None
    """Directory or tarball on this machine with MPICH as installed (bin, include, lib), to use instead of Open MPI.

    It must not depend on its own path, as the files of the Python package ``mpich`` do not."""
    nccl: FilePath | None = None
    """Directory or tarball on this machine with the source of NCCL, which is built for nccl-tests."""
    nccl_tests: FilePath | None = None
    """Directory or tarball on this machine with the source of nccl-tests, which is built with the MPI."""


class PythonSettings(Model):
    """Whether launches must find a Python, and what bootstrap installs into the one that it makes."""

    require: bool | None = None
    """False: not checked; true: also with one node; unset: with several nodes."""
    packages: tuple[PipRequirement, ...] | None = None
    """Requirements of pip to install besides collective_core, such as ``torch==2.11.*``; unset: ``torch`` on nodes
    with GPUs. With torch in the list, the Python of ranks must have it."""
    index_url: IndexUrl | None = None
    """Package index for ``packages``; unset: that of the node's pip configuration, or PyPI.

    It must not contain user or password: put those into the node's ``/etc/pip.conf``."""


class AcceptToolsSettings(Model):
    """Whether the nodes must have the programs that `accept` calls."""

    require: bool = False
    """True: each node must have fio, stress-ng and iperf3, and perftest if it has RDMA devices; false: not
    applicable."""


class DiskSettings(Model):
    """Free space and inodes of the file systems that bootstrap and launches write."""

    min_free_mib: int = Field(default=2048, ge=0)
    """Minimum free MiB of the file systems of /, /etc, /opt, /var and /var/lib/clusterctl."""
    min_free_tmp_mib: int = Field(default=256, ge=0)
    """Minimum free MiB of /tmp, if it is a file system of its own."""
    min_free_inodes: int = Field(default=20000, ge=0)
    """Minimum free inodes of each of these file systems."""
    ignore: tuple[Literal["/etc", "/opt", "/tmp", "/var"], ...] = ()
    """Directories that are not judged, such as a read-only ``/opt`` with the site's programs."""


class PackageSettings(Model):
    """The source of packages."""

    folder: FilePath | None = None
    """A directory on this machine with package files and SHA256SUMS, for sites without repositories."""
    mirror: Annotated[str, StringConstraints(pattern=r"^https?://[A-Za-z0-9._~:/\[\]%+-]+$")] | None = None
    """The base URL of a mirror to use instead of download.docker.com and NVIDIA's repositories.

    It must not contain user or password, because every account of a node can read the files with the URL.
    """


class RequirementSettings(Model):
    """Settings of individual requirements, and the requirements to skip."""

    skip: tuple[RequirementName, ...] = ()
    """Requirements that are not checked."""
    acs: AcsSettings = AcsSettings()
    peermem: PeermemSettings = PeermemSettings()
    rdma_link: RdmaLinkSettings = RdmaLinkSettings()
    docker: DockerSettings = DockerSettings()
    gpu_driver: GpuDriverSettings = GpuDriverSettings()
    container_toolkit: ContainerToolkitSettings = ContainerToolkitSettings()
    network_buffers: NetworkBufferSettings = NetworkBufferSettings()
    cluster_file: ClusterFileSettings = ClusterFileSettings()
    shared_dir: SharedDirSettings = SharedDirSettings()
    ssh_mesh: SshMeshSettings = SshMeshSettings()
    time_sync: TimeSyncSettings = TimeSyncSettings()
    mpi: MpiSettings = MpiSettings()
    python: PythonSettings = PythonSettings()
    accept_tools: AcceptToolsSettings = AcceptToolsSettings()
    disk: DiskSettings = DiskSettings()
    packages: PackageSettings = PackageSettings()
    memlock: Literal["unlimited"] | Annotated[int, Field(gt=0)] = "unlimited"
    """KiB of memory that a process in a non-interactive SSH session may lock."""
    cpu_governor: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")] = "performance"
    """The CPU frequency governor that every core must have."""
