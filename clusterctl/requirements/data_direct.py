"""ConnectX-8: NICs that reach GPUs by Data Direct, past the ports of the PCIe tree that other NICs go by.

Sources: NVIDIA AI Enterprise, ACS on ConnectX-8 platforms; NCCL net_ib (mlx5dv_get_data_direct_sysfs_path, MLX5_1.25).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts

CONNECTX_8 = ("15b3", "1023")
FUNCTION = ("15b3", "2100")
"""The DMA engine beside a ConnectX-8 (Linux, drivers/infiniband/hw/mlx5/data_direct.c); its class is InfiniBand's."""


def has_connectx_8(facts: NodeFacts) -> bool:
    """Whether there is one at all: without its driver it carries no RDMA device yet."""
    return any((device.vendor, device.device) == CONNECTX_8 for device in facts.pci.devices.or_else(()))


def warnings(facts: NodeFacts) -> tuple[str, ...]:
    """Say what GPUDirect RDMA needs beside DMA-BUF where a ConnectX-8 serves a Grace system."""
    if facts.system.machine.value != "aarch64" or not has_connectx_8(facts):
        return ()
    said = (
        "ConnectX-8 beside Grace reaches GPUs by Data Direct, which also needs a kernel and a libmlx5 (MLX5_1.25) "
        "for it; neither is looked at here: the NCCL log of a run proves it"
    )
    return (said,)
