"""Detect ConnectX-8 NICs, which reach GPUs with Data Direct instead of through the ports of the PCIe tree.

Sources: NVIDIA AI Enterprise, ACS on ConnectX-8 platforms; NCCL net_ib (mlx5dv_get_data_direct_sysfs_path, MLX5_1.25).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.vendors import tables

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import PciDevice
    from clusterctl.facts.model.node import NodeFacts


def is_function(device: PciDevice) -> bool:
    """Whether a PCI device is the DMA engine of a ConnectX-8, which has the class of InfiniBand cards."""
    return (device.vendor, device.device) in tables.nic_function("connectx-8-data-direct")


def has_connectx_8(facts: NodeFacts) -> bool:
    """Whether the PCI tree shows a ConnectX-8; without its driver it has no RDMA device yet."""
    ids = tables.nic_function("connectx-8")
    return any((device.vendor, device.device) in ids for device in facts.pci.devices.or_else(()))


def warnings(facts: NodeFacts) -> tuple[str, ...]:
    """Return what GPUDirect RDMA needs in addition to DMA-BUF on a Grace system with a ConnectX-8."""
    if facts.system.machine.value != "aarch64" or not has_connectx_8(facts):
        return ()
    said = (
        "on Grace, ConnectX-8 reaches GPUs with Data Direct, which also needs support by the kernel and by libmlx5 "
        "(MLX5_1.25); clusterctl checks neither: see the NCCL log of a run"
    )
    return (said,)
