"""Select the GPUs that a node's own driver runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.base import ReadStatus
from clusterctl.text.wording import counted, some

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import PciDevice
    from clusterctl.facts.model.node import NodeFacts

GIVEN_AWAY = ("vfio-pci", "nvgrace_gpu_vfio_pci", "mlx5_vfio_pci", "pci-stub", "xen-pciback", "pciback")
"""Drivers that reserve a device for a virtual machine; libvirt chooses the matching VFIO driver itself."""


def own_gpus(facts: NodeFacts) -> tuple[PciDevice, ...]:
    """Return the GPUs of this node's driver, without virtual functions and GPUs assigned to guests."""
    return _of_this_node(facts.pci.nvidia_gpus)


def _of_this_node(gpus: tuple[PciDevice, ...]) -> tuple[PciDevice, ...]:
    return tuple(gpu for gpu in gpus if gpu.physical_function is None and gpu.driver not in GIVEN_AWAY)


def unsupported(facts: NodeFacts) -> str:
    """Return that the node's AMD GPUs are not supported; empty if it has none of its own."""
    gpus = _of_this_node(facts.pci.amd_accelerators)
    if not gpus:
        return ""
    kinds = some(sorted({f"{gpu.vendor}:{gpu.device}" for gpu in gpus}), 3)
    return f"{counted(len(gpus), 'AMD GPU')} ({kinds}): clusterctl supports NVIDIA GPUs only"


def why_none(facts: NodeFacts) -> str:
    """Return why a node has no GPU of its own."""
    if facts.pci.nvidia_gpus:
        return "all NVIDIA GPUs of this node are assigned to virtual machines"
    return "the node has no NVIDIA GPU"


def driver_is_a_containers(facts: NodeFacts) -> bool:
    """Whether the driver seems to run in a Kubernetes container (GPU Operator): a module but no tools on the host."""
    kubelet = facts.services.unit("kubelet.service")
    tools = facts.gpu.driver.value is not None and facts.gpu.devices.status is ReadStatus.ABSENT
    return tools and kubelet is not None and kubelet.active == "active"
