"""Which of a node's GPUs are its own to drive."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts, PciDevice

GIVEN_AWAY = ("vfio-pci", "nvgrace_gpu_vfio_pci", "mlx5_vfio_pci", "pci-stub", "xen-pciback", "pciback")
"""Drivers that hold a device for a virtual machine; libvirt takes the fitting one of VFIO's by itself."""


def own_gpus(facts: NodeFacts) -> tuple[PciDevice, ...]:
    """Return the GPUs that this node's driver is to run: not virtual functions, not those given to guests."""
    return tuple(
        gpu for gpu in facts.pci.nvidia_gpus if gpu.physical_function is None and gpu.driver not in GIVEN_AWAY
    )


def why_none(facts: NodeFacts) -> str:
    """Say why a node has no GPU of its own."""
    if facts.pci.nvidia_gpus:
        return "all NVIDIA GPUs here are given to virtual machines"
    return "there is no NVIDIA GPU"
