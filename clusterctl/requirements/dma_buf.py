"""Whether GPUDirect RDMA by DMA-BUF is possible on a node, condition by condition.

Sources: NCCL net_ib/gdr.cc and init.cc; NVIDIA GPU Operator documentation (GPUDirect RDMA).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.requirements import rdma_ports

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts
    from clusterctl.inventory.model import Node

MIN_KERNEL = (5, 12)
MIN_DRIVER = 515
"""The first driver branch with open kernel modules (CUDA 11.7)."""
NIC_DRIVERS = ("mlx5_core", "bnxt_en", "efa", "ice", "irdma", "ionic")
"""Drivers of NICs whose RDMA side registers DMA-BUF memory in mainline kernels."""


def missing_conditions(facts: NodeFacts, node: Node) -> tuple[str, ...]:
    """Return what stands in the way of DMA-BUF, in words; empty when all conditions hold.

    Of NICs only those count that the node is to use: a management port of another maker sees no GPU.
    """
    missing = []
    kernel = facts.system.kernel_version
    if kernel is None:
        missing.append("the kernel's version is not known")
    elif kernel < MIN_KERNEL:
        missing.append(f"kernel {facts.system.kernel.value} is older than 5.12")
    flavour = facts.gpu.open_kernel_module
    if flavour is None:
        missing.append("whether the GPU driver's kernel modules are the open ones is not known")
    elif not flavour:
        missing.append("the GPU driver's kernel modules are the proprietary ones, not the open ones")
    driver = facts.gpu.driver.value
    if driver is not None and _branch(driver.version) < MIN_DRIVER:
        missing.append(f"driver {driver.version} is older than {MIN_DRIVER}")
    if facts.gpudirect.verbs_dmabuf.value is None:
        missing.append("whether libibverbs has ibv_reg_dmabuf_mr is not known")
    elif not facts.gpudirect.verbs_dmabuf.value:
        missing.append("libibverbs lacks ibv_reg_dmabuf_mr (rdma-core before 34)")
    for device in rdma_ports.devices(facts, node):
        pci = facts.pci.device(device.pci_address) if device.pci_address is not None else None
        if pci is not None and pci.driver not in NIC_DRIVERS:
            missing.append(
                f"the NIC driver {pci.driver} of {device.name} is not known to register DMA-BUF memory"
            )
    return tuple(missing)


def _branch(version: str) -> int:
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else 0
