"""The models of the inventory: the YAML file as written, and the resolved nodes that every later stage uses."""

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
from clusterctl.inventory.interfaces import Interfaces
from clusterctl.inventory.interfaces import parse as parse_interfaces
from clusterctl.inventory.requirement_settings import RequirementSettings


class Become(str, Enum):
    """How commands become root on a node."""

    AUTO = "auto"
    """sudo unless the login is root."""
    NONE = "none"
    """Never; checks that need root return ``unknown``."""
    SUDO = "sudo"


class Launcher(str, Enum):
    """What starts the ranks of a benchmark."""

    OPENMPI = "openmpi"
    MPICH = "mpich"
    TORCHRUN = "torchrun"
    SRUN = "srun"


class ContainerSettings(Model):
    """The container that runs on every node. The defaults grant only the privileges that RDMA needs."""

    image: Word | None = None
    """Image reference: ``registry/name:tag`` or ``name@sha256:...``."""
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] | None = "clusterctl"
    """The container's name; null: docker generates one."""
    privileged: bool = False
    """Give the container full access to the host. RDMA does not need it; run setpci and modprobe on the host."""
    gpus: Literal["all", "cdi", "none"] = "all"
    """``all``: --gpus all; ``cdi``: --device nvidia.com/gpu=all, which podman supports too; ``none``: no GPUs."""
    network: Word = "host"
    """Docker's ``--network``. RoCE needs ``host``, because the container must see the GID's interface."""
    ipc: Word | None = None
    """Docker's ``--ipc``, such as ``host``; unset: docker's default."""
    shm_size: Annotated[NumberText, StringConstraints(pattern=r"^[0-9]+[bkmgBKMG]?$")] | None = "32g"
    """Size of /dev/shm; NCCL needs 1 GiB per 8 ranks. Ignored if ``ipc`` is ``host``."""
    memlock: Annotated[NumberText, StringConstraints(pattern=r"^(-1|[0-9]+)(:(-1|[0-9]+))?$")] | None = "-1"
    """Limit of locked memory in bytes, -1: unlimited; docker does not inherit the host's limit."""
    stack: Annotated[NumberText, StringConstraints(pattern=r"^[0-9]+(:[0-9]+)?$")] | None = "67108864"
    """Limit of the stack in bytes."""
    devices: tuple[Word, ...] = ("/dev/infiniband",)
    """Devices of the host that the container can use."""
    cap_add: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Z_]+$")], ...] = ("IPC_LOCK",)
    """Capabilities. IPC_LOCK works only for root in the container; other users need the ``memlock`` limit."""
    volumes: tuple[Word, ...] = ()
    """Bind mounts: ``/on/the/host:/in/the/container[:ro]``."""
    interactive: bool = False
    """Keep standard input open, with a terminal (``-it``); ``up`` ignores it."""
    detach: bool = False
    """Run the container in the background (``-d``); ``up`` always does."""
    remove: bool = True
    """Remove the container when it ends (``--rm``); ``up`` ignores it, and ``down`` removes the container."""
    command: tuple[str, ...] = ()
    """Program and arguments to run in the container; empty: the image's."""
    env: dict[VariableName, NumberText] = Field(default_factory=dict)
    """Environment variables of the container. A value that a rendezvous sets, such as RANK, takes precedence."""


class NodeSettings(Model):
    """Settings of a node, of a group, or of all nodes under ``defaults``; an unset key uses the next level's value."""

    user: User | None = None
    """Login user on the node; unset: as ssh_config sets it, else your own user name."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Port of the node's SSH server; unset: as ssh_config sets it, else 22."""
    identity_file: FilePath | None = None
    """Private key on this machine; relative paths start at the inventory's directory, ``~`` is your home."""
    known_hosts: FilePath | None = None
    """Host keys of the nodes, instead of ~/.ssh/known_hosts; relative paths start at the inventory's directory."""
    proxy_jump: ProxyJump | None = None
    """Jump host: ``[user@]host[:port]``, as in ssh_config."""
    become: Become | None = None
    """How commands become root on the node: ``auto`` uses sudo unless the login is root, ``none`` never does."""
    connection: Literal["ssh", "local"] | None = None
    """``local``: run commands on this machine, without SSH."""
    gpus: int | None = Field(default=None, ge=0, le=64)
    """GPUs per node; unset: as detected. A node without GPUs has one rank per core."""
    slots: int | None = Field(default=None, ge=1, le=4096)
    """Ranks per node; unset: the number of its GPUs, or of its cores if it has no GPU."""
    socket_ifname: InterfaceSelector | None = None
    """Network interface for TCP (NCCL_SOCKET_IFNAME, btl_tcp_if_include)."""
    rdma_devices: RdmaSelector | None = None
    """RDMA devices in the syntax of NCCL_IB_HCA: ``=mlx5_0,mlx5_1`` exactly these, ``^mlx5_2`` all but this."""
    python: Program | None = None
    """The Python interpreter of ranks on the node; unset: the one that bootstrap made (requirement ``python``), else
    python3."""
    mpirun: Program | None = None
    """Path of mpirun on the node that launches; unset: mpirun."""
    all_reduce_perf: Program | None = None
    """Path of all_reduce_perf on the nodes; unset: as detected."""
    requirements: RequirementSettings | None = None
    """Settings of individual requirements."""
    container: ContainerSettings | None = None
    """The container that runs on the node."""
    env: dict[VariableName, NumberText] | None = None
    """Environment variables of every rank on the node; they take precedence over the other settings."""


class NodeSpec(NodeSettings):
    """One entry under ``nodes``: one node, or a range of nodes such as ``gpu[01-16]``.

    ``- gpu[01-16]`` stands for ``- name: gpu[01-16]``, and so does ``nodes: gpu[01-16]`` for a list with this entry.
    """

    name: str = Field(min_length=1, max_length=1024)
    """Name of the node, or a range of names; a node must not be in two entries."""
    address: str | None = Field(default=None, min_length=1, max_length=1024)
    """Host name or address, or a range with as many addresses as names; unset: the name."""


class GroupSpec(NodeSettings):
    """Settings of a set of nodes; they override ``defaults``, and the node's own settings override them.

    ``rack1: gpu[01-08]`` stands for ``rack1: {nodes: gpu[01-08]}``.
    """

    nodes: str = Field(min_length=1, max_length=65536)
    """The nodes of the group as a node set: ``gpu[01-08],spare``."""


class InventoryFile(Model):
    """The inventory file as written."""

    version: Literal[1]
    """The version of the file format."""
    launcher: Launcher = Launcher.OPENMPI
    """What starts the ranks of a benchmark."""
    defaults: NodeSettings = NodeSettings()
    """Settings of all nodes."""
    groups: dict[NodeName, GroupSpec] = Field(default_factory=dict)
    """Settings of sets of nodes, by group name."""
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
    """One node with every setting resolved (precedence: node, groups from last to first in the file, defaults)."""

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
    # A factory, because pydantic copies any other default, which costs as much as reading a fleet's file.
    requirements: RequirementSettings = Field(default_factory=lambda: _NO_REQUIREMENT_SETTINGS)
    container: ContainerSettings = Field(default_factory=lambda: _NO_CONTAINER_SETTINGS)
    env: dict[str, str] = Field(default_factory=dict)
    groups: tuple[str, ...] = ()

    @property
    def interfaces(self) -> Interfaces | None:
        """Return ``socket_ifname`` in its parts."""
        return parse_interfaces(self.socket_ifname) if self.socket_ifname else None


class Inventory(Model):
    """The nodes in file order; ``source``: the file's path, the targets, or None for the default (this machine)."""

    nodes: tuple[Node, ...]
    launcher: Launcher = Launcher.OPENMPI
    source: str | None = None
    beyond: tuple[Node, ...] = ()
    """The nodes that ``--limit`` excluded, in file order: part of the fleet, but never contacted."""

    def node(self, name: str) -> Node:
        """Return the node with this name; raise KeyError for an unknown name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)
