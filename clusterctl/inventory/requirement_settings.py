"""What an inventory may say of single requirements: what they want, and how far bootstrap may go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from clusterctl.inventory.field_types import (
    Address,
    FilePath,
    NodeName,
    NumberText,
    PackageName,
    PciSelector,
    RequirementName,
)
from clusterctl.inventory.frozen_model import Model


class AcsSettings(Model):
    """Which PCIe ports count, and whether a virtual machine's may be touched."""

    in_vm: Literal["leave", "disable"] = "leave"
    """In a virtual machine ACS isolates passed-through devices: leave it, unless told otherwise."""
    gpu_devices: tuple[PciSelector, ...] = ()
    """PCI devices that count as GPUs: ``class:0302``, ``10de:*`` or an address; empty: NVIDIA's."""
    nic_devices: tuple[PciSelector, ...] = ()
    """PCI devices that count as RDMA NICs; empty: those that carry an RDMA device."""
    persist: bool = True
    """Install a systemd unit that clears the redirection again at every boot."""


class PeermemSettings(Model):
    """Which GPUDirect RDMA mechanism, and where nv_peer_mem's source comes from when it has to be built."""

    mechanism: Literal["auto", "dma-buf", "nvidia-peermem", "nv_peer_mem", "none"] = "auto"
    """The mechanism that must be in place; ``auto``: any that works; ``none``: not applicable."""
    source: str | None = None
    """Directory or tarball on this machine with the source of an out-of-tree module, for ``nv_peer_mem``."""
    module: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$")] = "nv_peer_mem"
    """The name of the module that this source builds."""


class RdmaLinkSettings(Model):
    """What a node's RDMA ports must reach."""

    min_rate_gbps: float | None = Field(default=None, gt=0)
    """The least rate of each port in Gb/s; unset: the rate is not judged."""
    require: bool | None = None
    """True: a node without a device is unmet; false: never judged; unset: not applicable without one."""


class DockerSettings(Model):
    """Whether docker is wanted and may be installed."""

    require: bool = True
    """False: the requirement is not applicable."""
    source: Literal["distribution", "docker"] = "distribution"
    """Whose packages: the distribution's (the RHEL family has none), or those of docker's own repository."""
    package: PackageName | None = None
    """The package to install instead of what ``source`` means."""
    memlock: Literal["leave", "unlimited"] = "leave"
    """``unlimited``: containers may lock memory without a word on their command line (default-ulimits)."""


class GpuDriverSettings(Model):
    """Which NVIDIA driver, and whether bootstrap may install one."""

    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+){0,2}$")] | None = None
    """The version, or its first parts (``570``); unset: whatever the other nodes have."""
    flavour: Literal["any", "open", "proprietary"] = "any"
    """Which kernel modules the driver must have."""
    install: Literal["never", "distribution", "nvidia"] = "never"
    """Where bootstrap may install it from, when it is missing: never asked for, never done."""


class ContainerToolkitSettings(Model):
    """Whether containers must see the GPUs, and how."""

    require: bool | None = None
    """Unset: wherever docker is required and GPUs are there."""
    cdi: bool | None = None
    """Keep a CDI specification that fits the driver. Unset: one is made where docker has no other way to give GPUs, or
    ``container.gpus`` is ``cdi``; where docker knows the runtime ``nvidia``, that there is none is a warning."""


class NetworkBufferSettings(Model):
    """Socket buffers and queues of the kernel that many TCP streams need."""

    require: bool = True
    """False: the requirement is not applicable."""
    sysctls: dict[Annotated[str, StringConstraints(pattern=r"^net\.[a-z0-9_.]+$")], NumberText] = Field(
        default_factory=dict
    )
    """Values that differ from clusterctl's own, by name; each is a least value where it is one number."""


class ClusterFileSettings(Model):
    """The file that tells a topology-aware library which nodes there are."""

    path: Annotated[str, StringConstraints(pattern=r"^/etc/sysconfig/rdma/[A-Za-z0-9_][A-Za-z0-9._-]*$")] = (
        "/etc/sysconfig/rdma/cluster"
    )
    """Where it is; the probe reads the files of this one folder on every node."""
    source: FilePath | None = None
    """The file on this machine whose content it must have (at most 1 MiB of UTF-8 text)."""
    content: Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=1 << 20)] | None = None
    """The content itself, instead of ``source``; neither of them: the file is not judged."""


class SharedDirSettings(Model):
    """A folder that all nodes share over NFS."""

    path: Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]+$")] | None = None
    """Where it is mounted on every node; unset: none is wanted."""
    server: NodeName | None = None
    """The node that exports it; exactly one of this and ``export``."""
    export: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.\[\]:-]+:/[A-Za-z0-9._/-]*$")] | None = (
        None
    )
    """An export that exists already: ``host:/path``."""
    folder: Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]+$")] | None = None
    """The folder on the server; unset: the same as ``path``."""
    squash_root: bool | None = None
    """Whether root of another node is nobody in the folder; unset: unless the inventory's account is root."""
    options: tuple[
        Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(=[A-Za-z0-9_.:-]+)?$")], ...
    ] = ()
    """Mount options beside clusterctl's own, such as ``nconnect=8``; a ``vers=3`` replaces the 4.2
    that is set for the inventory's own server."""


class SshMeshSettings(Model):
    """Whether the nodes may log in to each other, as launchers that start from a node need."""

    require: bool = False
    """True: each node must be able to log in to the others; false: not applicable."""
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")] = "mesh"
    """Names the keys and files: nodes that stand in several inventories need another name in each."""
    keys_from_here: bool = True
    """A node's key is accepted only from that node's own addresses."""
    also_from: tuple[Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$")], ...] = ()
    """Further addresses or networks that the keys may come from, where addresses are translated on the way."""
    pty: bool = False
    """Allow a terminal, for people who hop from node to node; launchers need none."""


class TimeSyncSettings(Model):
    """How far clocks may be apart, and whom to ask the time."""

    require: bool = True
    """False: the requirement is not applicable."""
    max_offset_s: float = Field(default=1.0, gt=0)
    """The most that a node's clock may differ from this machine's (round trip taken out) and from its peers'."""
    servers: tuple[Address, ...] = ()
    """Time servers to write into the configuration; empty: the distribution's."""


class PackageSettings(Model):
    """Where packages come from."""

    folder: FilePath | None = None
    """A folder on this machine with package files and SHA256SUMS, for sites without repositories."""
    mirror: Annotated[str, StringConstraints(pattern=r"^https?://[A-Za-z0-9._~:/\[\]%+-]+$")] | None = None
    """The base URL of a mirror that stands in for download.docker.com and NVIDIA's repositories.

    Without a login: it would stand in files that every account of a node can read.
    """


class RequirementSettings(Model):
    """Settings of single requirements, and those left out altogether."""

    skip: tuple[RequirementName, ...] = ()
    """Requirements that are not judged."""
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
    packages: PackageSettings = PackageSettings()
    memlock: Literal["unlimited"] | Annotated[int, Field(gt=0)] = "unlimited"
    """KiB of memory that a process may lock, in a non-interactive SSH session."""
    cpu_governor: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")] = "performance"
    """The CPU frequency governor that every core must have."""
