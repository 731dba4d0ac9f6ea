"""Hardware limits of some GPU models and their connection to the machine, independent of installed software."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import PciDevice

_MEMORY_OF_THE_CPU = re.compile(r"\bGB10\b")
_FOR_GAMES = re.compile(r"\bGeForce\b")
_MEMORY_OF_THE_CPU_PRODUCTS = ("2e12",)
"""GB10."""
_SUPERCHIP = re.compile(r"\bG[HB][23]00\b")
_SUPERCHIP_PRODUCTS = ("2342", "2345", "2348", "2941", "31c2")
"""Three of GH200, then GB200 and GB300 (Linux, drivers/vfio/pci/nvgrace-gpu)."""


def why_no_gpudirect(name: str) -> str | None:
    """Return why NICs cannot reach the memory of a GPU with this name (nvidia-smi's); None if they can.

    DGX Spark: the GPU shares the CPU's memory, and PCIe devices may not access CUDA's allocations in it (DGX Spark
    Porting Guide, "GPUDirect RDMA"). GeForce: CUDA's library does not give access (gdrcopy #211).
    """
    if _MEMORY_OF_THE_CPU.search(name):
        return f"{name} shares its memory with the CPU and does not support GPUDirect RDMA"
    if _FOR_GAMES.search(name):
        return f"{name} has no GPUDirect RDMA; NVIDIA supports it only on data-centre and professional GPUs"
    return None


def why_no_efa_gpudirect(machine: str) -> str | None:
    """Return why EFAs cannot reach the GPUs of an EC2 machine, by its product name; None if they can.

    Sources: aws-ofi-nccl #547; Amazon's announcement of G7e, the first G machine with GPUDirect RDMA.
    """
    if re.match(r"gr?[1-6]\D", machine) is None:
        return None
    return f"EC2's G machines before G7 ({machine}) have no GPUDirect RDMA, whatever their GPUs are"


def is_joined_to_its_cpu(gpu: str | PciDevice) -> bool:
    """Return whether a GPU (name or PCI device) is attached to a Grace CPU by NVLink-C2C, which NICs use too."""
    if isinstance(gpu, str):
        return _SUPERCHIP.search(gpu) is not None
    return gpu.is_nvidia_gpu and gpu.device in _SUPERCHIP_PRODUCTS


def shares_memory_of_its_cpu(gpu: PciDevice) -> bool:
    """Return whether a PCI device is a GPU without memory of its own (GB10 of DGX Spark)."""
    return gpu.is_nvidia_gpu and gpu.device in _MEMORY_OF_THE_CPU_PRODUCTS
