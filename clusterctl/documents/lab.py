"""``lab``: virtual nodes, and the record by which a lab is found and removed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clusterctl.documents.base import Document, Part


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


class LabProcess(Part):
    """A process that the lab started: its id, and its start in clock ticks, which no later process shares."""

    pid: int
    start_ticks: int


class LabNodeState(Part):
    """One virtual node: where SSH answers from this machine, and its address among the nodes."""

    name: str
    address: str
    port: int
    user: str
    fabric_address: str
    fabric_interface: str
    process: LabProcess | None
    container_id: str | None


class LabSize(Part):
    """How much of this machine one guest may use (qemu)."""

    memory_mib: int
    vcpus: int
    accelerator: Literal["kvm", "tcg"]


class LabMount(Part):
    """A directory or file of this machine, and the path at which every node sees it."""

    source: str
    target: str
    read_only: bool


class LabState(Document):
    """``state.json`` of a lab."""

    schema_: Literal["clusterctl.lab-state/1"] = Field(default="clusterctl.lab-state/1", alias="schema")
    lab_id: str
    driver: Literal["docker", "qemu"]
    image_key: str
    size: LabSize
    python: str | None
    mounts: tuple[LabMount, ...] = ()
    nodes: tuple[LabNodeState, ...]
