"""Check GPUDirect RDMA on Amazon's EFA, whose driver uses neither nvidia_peermem nor the peer-memory API.

Sources: amzn-drivers, kernel/linux/efa_nv_peermem (README: needs NVIDIA's open kernel modules; the efa driver loads it
on demand).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.subjects.gpu_models import why_no_efa_gpudirect
from clusterctl.facts.vendors import tables
from clusterctl.requirements.rdma import ports as rdma_ports

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import PciDevice
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Node

MODULE = "efa_nv_peermem"
AMAZON = "1d0f"


def _used(facts: NodeFacts, node: Node) -> tuple[PciDevice | None, ...]:
    found = rdma_ports.devices(facts, node)
    return tuple(facts.pci.device(d.pci_address) for d in found if d.pci_address is not None)


def _is_efa(device: PciDevice | None) -> bool:
    return device is not None and device.vendor == AMAZON and device.device.startswith("efa")


def is_the_way(facts: NodeFacts, node: Node) -> bool:
    """Whether all NICs selected for the node are EFAs."""
    used = _used(facts, node)
    return bool(used) and all(_is_efa(device) for device in used)


def why_no_gpudirect(facts: NodeFacts, node: Node) -> str | None:
    """Return why the EFAs of this machine cannot reach its GPUs; None if they can, or if it has other NICs."""
    if not is_the_way(facts, node):
        return None
    return why_no_efa_gpudirect(facts.versions.firmware_word("product_name") or "")


def is_there(facts: NodeFacts) -> bool | None:
    """Whether the module is loaded or will be loaded on demand; None if unknown."""
    if facts.modules.is_loaded(MODULE):
        return True
    return facts.modules.is_installed(MODULE) if facts.gpu.open_kernel_module else False


def reaches_gpus_itself(facts: NodeFacts) -> bool:
    """Whether the efa driver is Amazon's own build, which can use the proprietary GPU driver on some kernels."""
    loaded = facts.modules.loaded.or_else(())
    return any(module.name == "efa" and "O" in module.taints for module in loaded)


def dma_buf_warnings(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return a warning if DMA-BUF is possible but NCCL's plugin for EFA may not use it."""
    used = {(d.vendor, d.device) for d in _used(facts, node) if d is not None}
    if is_there(facts) is not False or not used & tables.nic_function("efa-without-dma-buf"):
        return ()
    said = (
        f"aws-ofi-nccl before 1.19.2 does not use DMA-BUF on EFAs of this generation, and {MODULE} (from the EFA "
        "installer) is not installed: see the NCCL log of a run"
    )
    return (said,)
