"""Run virtual nodes for rehearsal: QEMU guests with real PCIe and RDMA, or containers on a real engine."""

from __future__ import annotations

from clusterctl.documents.lab import Driver, LabNode
from clusterctl.lab.lifecycle import LabOptions, down, status, up
from clusterctl.lab.model import DEFAULT_DIRECTORY, Lab, LabStatus, NodeStatus, load
from clusterctl.lab.power import kill, start, wait_ssh
from clusterctl.lab.python_mounts import BindMount

__all__ = [
    "DEFAULT_DIRECTORY",
    "BindMount",
    "Driver",
    "Lab",
    "LabNode",
    "LabOptions",
    "LabStatus",
    "NodeStatus",
    "down",
    "kill",
    "load",
    "start",
    "status",
    "up",
    "wait_ssh",
]
