"""``lab``: virtual nodes, and the record by which a lab is found and removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part
from clusterctl.documents.evidence import Closed

Driver = Literal["docker", "qemu"]
Accelerator = Literal["kvm", "tcg"]


class LabNodeStatus(Part):
    """One virtual node; ``ssh``: its SSH server answers with the expected host key."""

    name: str
    user: str
    address: str
    port: int
    fabric_address: str
    running: bool
    ssh: bool
    pid: int | None
    container_id: str | None


class LabStatusDocument(Document):
    """``clusterctl lab up --json`` and ``lab status --json``; the files are null if the directory holds no lab."""

    schema_: Literal["clusterctl.lab/1"] = Field(default="clusterctl.lab/1", alias="schema")
    directory: str
    driver: str | None
    inventory: str | None
    known_hosts: str | None
    identity_file: str | None
    nodes: tuple[LabNodeStatus, ...]


class LabDown(Document):
    """``clusterctl lab down --json``; ``removed`` is false if the directory held no lab."""

    schema_: Literal["clusterctl.lab-down/1"] = Field(default="clusterctl.lab-down/1", alias="schema")
    directory: str
    removed: bool


@dataclass(frozen=True, slots=True)
class ProcessMark(Closed):
    """A process that the lab started: its id, and its start in clock ticks, which no later process shares."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class LabNode(Closed):
    """One virtual node: where SSH answers from this machine, and its address among the nodes.

    ``fabric_address`` and ``fabric_interface`` name the nodes' own network (the one for MPI and RDMA).
    ``process`` is set while a guest runs (qemu), ``container_id`` as long as the container exists (docker).
    """

    name: str
    address: str
    port: int
    user: str
    fabric_address: str
    fabric_interface: str
    process: ProcessMark | None = None
    container_id: str | None = None

    @property
    def pid(self) -> int | None:
        """The qemu process of the node; None for containers and for guests that were not started."""
        return self.process.pid if self.process else None


@dataclass(frozen=True, slots=True)
class GuestSize(Closed):
    """How much of this machine one guest may use, and what runs its instructions (qemu)."""

    memory_mib: int
    vcpus: int
    accelerator: Accelerator


class LabMount(Part):
    """A directory or file of this machine, and the path at which every node sees it."""

    source: str
    target: str
    read_only: bool


class LabState(Document):
    """``state.json`` of a lab."""

    schema_: Literal["clusterctl.lab-state/1"] = Field(default="clusterctl.lab-state/1", alias="schema")
    lab_id: str
    driver: Driver
    image_key: str
    size: GuestSize
    python: str | None
    mounts: tuple[LabMount, ...] = ()
    nodes: tuple[LabNode, ...]
