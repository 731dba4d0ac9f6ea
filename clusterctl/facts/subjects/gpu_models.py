"""Hardware limits of some GPU models and their connection to the machine, independent of installed software."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.facts.vendors import tables

if TYPE_CHECKING:
    from clusterctl.facts.model.devices import PciDevice


def why_no_gpudirect(name: str) -> str | None:
    """Return why NICs cannot reach the memory of a GPU with this name (nvidia-smi's); None if they can.

    DGX Spark: the GPU shares the CPU's memory, and PCIe devices may not access CUDA's allocations in it. GeForce:
    CUDA's library does not give access.
    """
    if tables.gpu_named(name, "memory-of-the-cpu"):
        return f"{name} shares its memory with the CPU and does not support GPUDirect RDMA"
    if tables.gpu_named(name, "for-games"):
        return f"{name} has no GPUDirect RDMA; NVIDIA supports it only on data-centre and professional GPUs"
    return None


def why_no_efa_gpudirect(machine: str) -> str | None:
    """Return why EFAs cannot reach the GPUs of an EC2 machine, by its product name; None if they can."""
    if not tables.machine_has("amazon", machine, "without-gpudirect"):
        return None
    return f"EC2's G machines before G7 ({machine}) have no GPUDirect RDMA, whatever their GPUs are"


def is_joined_to_its_cpu(gpu: str | PciDevice) -> bool:
    """Return whether a GPU (name or PCI device) is attached to a Grace CPU by NVLink-C2C, which NICs use too."""
    if isinstance(gpu, str):
        return tables.gpu_named(gpu, "joined-to-its-cpu")
    return gpu.is_nvidia_gpu and tables.gpu_with_id(gpu.device, "joined-to-its-cpu")


def shares_memory_of_its_cpu(gpu: PciDevice) -> bool:
    """Return whether a PCI device is a GPU without memory of its own (GB10 of DGX Spark)."""
    return gpu.is_nvidia_gpu and tables.gpu_with_id(gpu.device, "memory-of-the-cpu")
