"""The inventory's model: what the YAML file may say, and the resolved nodes that every later stage reads."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from clusterctl.inventory.field_types import (
    FilePath,
    InterfaceSelector,
    NodeName,
    NumberText,
    Program,
    ProxyJump,
    RdmaSelector,
    User,
    VariableName,
    Word,
)
from clusterctl.inventory.frozen_model import Model
from clusterctl.inventory.requirement_settings import RequirementSettings


class Become(str, Enum):
    """How commands become root on a node."""

    AUTO = "auto"
    """Root already, else sudo."""
    NONE = "none"
    """Never: checks that need root answer ``unknown``."""
    SUDO = "sudo"


class Launcher(str, Enum):
    """What starts the ranks of a benchmark."""

    OPENMPI = "openmpi"
    MPICH = "mpich"
    TORCHRUN = "torchrun"
    SRUN = "srun"


class ContainerSettings(Model):
    """The container that runs on every node. Defaults are least privilege for RDMA."""

    image: Word | None = None
    """Image reference: ``registry/name:tag`` or ``name@sha256:...``."""
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] | None = "clusterctl"
    """The container's name; null: docker makes one up."""
    privileged: bool = False
    """Give the container the whole host. RDMA does not need it; setpci and modprobe belong on the host."""
    gpus: Literal["all", "cdi", "none"] = "all"
    """``all``: --gpus all; ``cdi``: --device nvidia.com/gpu=all, which podman knows as well; ``none``."""
    network: Word = "host"
    """RoCE needs the host's network: the GID's interface must be visible."""
    ipc: Word | None = None
    """Docker's ``--ipc``, such as ``host``; unset: the default of docker."""
    shm_size: Annotated[NumberText, StringConstraints(pattern=r"^[0-9]+[bkmgBKMG]?$")] | None = "32g"
    """Size of /dev/shm; NCCL wants 1 GiB per 8 ranks. Without effect when ``ipc`` is host."""
    memlock: Annotated[NumberText, StringConstraints(pattern=r"^(-1|[0-9]+)(:(-1|[0-9]+))?$")] | None = "-1"
    """Bytes that may be locked; docker does not take over the host's limit."""
    stack: Annotated[NumberText, StringConstraints(pattern=r"^[0-9]+(:[0-9]+)?$")] | None = "67108864"
    """Bytes of stack."""
    devices: tuple[Word, ...] = ("/dev/infiniband",)
    """Devices of the host that the container sees."""
    cap_add: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Z_]+$")], ...] = ("IPC_LOCK",)
    """Capabilities; IPC_LOCK has effect only for root inside, hence the memlock limit beside it."""
    volumes: tuple[Word, ...] = ()
    """``/on/the/host:/in/the/container[:ro]``."""
    interactive: bool = False
    """Keep standard input open, with a terminal (``-it``); ``up`` ignores it."""
    detach: bool = False
    """Run the container in the background (``-d``); ``up`` always does."""
    remove: bool = True
    """Remove the container when it ends (``--rm``); ``up`` ignores it, and ``down`` removes the container."""
    command: tuple[str, ...] = ()
    """Program and arguments to run in the container; empty: those of the image."""
    env: dict[VariableName, NumberText] = Field(default_factory=dict)
    """Environment variables of the container. A value that a rendezvous sets, such as RANK, takes precedence."""


class NodeSettings(Model):
    """What may be said of a node, of a group, or of all nodes under ``defaults``; unset keys fall through."""

    user: User | None = None
    """Login on the node; unset: as ssh_config sets it, else your own user name."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Port of the node's SSH server; unset: as ssh_config sets it, else 22."""
    identity_file: FilePath | None = None
    """Private key on this machine; relative paths start at the inventory's folder, ``~`` is your home."""
    known_hosts: FilePath | None = None
    """Host keys of these nodes, in place of ~/.ssh/known_hosts; relative paths start at the inventory's folder."""
    proxy_jump: ProxyJump | None = None
    """``[user@]host[:port]``, as in ssh_config."""
    become: Become | None = None
    """How commands become root on the node: ``auto`` uses sudo unless the login is root, ``none`` never does."""
    connection: Literal["ssh", "local"] | None = None
    """``local``: run commands on this machine, without SSH."""
    gpus: int | None = Field(default=None, ge=0, le=64)
    """GPUs per node; unset: as found. Without GPUs, ranks go by cores."""
    slots: int | None = Field(default=None, ge=1, le=4096)
    """Ranks per node; unset: its GPUs, or without any its cores."""
    socket_ifname: InterfaceSelector | None = None
    """Network interface for TCP (NCCL_SOCKET_IFNAME, btl_tcp_if_include)."""
    rdma_devices: RdmaSelector | None = None
    """NCCL_IB_HCA syntax: ``=mlx5_0,mlx5_1`` exact, ``^mlx5_2`` without."""
    python: Program | None = None
    """The Python interpreter on the node that has torch; unset: python3."""
    mpirun: Program | None = None
    """mpirun's path on the node that launches; unset: mpirun."""
    all_reduce_perf: Program | None = None
    """The path of all_reduce_perf on the nodes; unset: as found."""
    requirements: RequirementSettings | None = None
    """Settings of single requirements."""
    container: ContainerSettings | None = None
    """The container that runs on the node."""
    env: dict[VariableName, NumberText] | None = None
    """Environment variables of every rank on the node."""


class NodeSpec(NodeSettings):
    """One entry under ``nodes``: a name, or a range of names such as ``gpu[01-16]``."""

    name: str = Field(min_length=1, max_length=1024)
    """Name of the node, or a range of names; each node has one entry."""
    address: str | None = Field(default=None, min_length=1, max_length=1024)
    """Host name or address, or a range of as many; unset: the name."""


class GroupSpec(NodeSettings):
    """Settings for a set of nodes, between ``defaults`` and the node's own."""

    nodes: str = Field(min_length=1, max_length=65536)
    """A node set: ``gpu[01-08],spare``."""


class InventoryFile(Model):
    """The file as written."""

    version: Literal[1]
    """The version of this file's shape."""
    launcher: Launcher = Launcher.OPENMPI
    """What starts the ranks of a benchmark."""
    defaults: NodeSettings = NodeSettings()
    """Settings of all nodes."""
    groups: dict[NodeName, GroupSpec] = Field(default_factory=dict)
    """Settings of sets of nodes, by the name of the group."""
    nodes: tuple[NodeSpec, ...] = Field(min_length=1)
    """The nodes of the cluster."""

    @field_validator("version", mode="before")
    @classmethod
    def _true_is_not_one(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("expected 1")
        return value


_NO_REQUIREMENT_SETTINGS = RequirementSettings()
_NO_CONTAINER_SETTINGS = ContainerSettings()


class Node(Model):
    """One node with every setting resolved (node over groups in file order over defaults)."""

    name: NodeName
    address: str
    user: str | None = None
    port: int | None = None
    identity_file: str | None = None
    known_hosts: str | None = None
    proxy_jump: str | None = None
    become: Become = Become.AUTO
    connection: Literal["ssh", "local"] = "ssh"
    gpus: int | None = None
    slots: int | None = None
    socket_ifname: str | None = None
    rdma_devices: str | None = None
    python: str | None = None
    mpirun: str | None = None
    all_reduce_perf: str | None = None
    # By a factory, as pydantic copies any other default, and that costs a fleet as much as reading its file.
    requirements: RequirementSettings = Field(default_factory=lambda: _NO_REQUIREMENT_SETTINGS)
    container: ContainerSettings = Field(default_factory=lambda: _NO_CONTAINER_SETTINGS)
    env: dict[str, str] = Field(default_factory=dict)
    groups: tuple[str, ...] = ()


class Inventory(Model):
    """The nodes in file order. ``source`` is the file's path, or None for the default (this machine)."""

    nodes: tuple[Node, ...]
    launcher: Launcher = Launcher.OPENMPI
    source: str | None = None
    beyond: tuple[Node, ...] = ()
    """The nodes of the file that ``--limit`` left out, in file order: never contacted, but part of the fleet."""

    def node(self, name: str) -> Node:
        """Return the node of this name; KeyError when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)
