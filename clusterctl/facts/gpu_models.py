"""What GPUs of some models cannot do, whatever is installed."""

from __future__ import annotations

import re

_WITHOUT_GPUDIRECT = re.compile(r"\bGB10\b")


def why_no_gpudirect(name: str) -> str | None:
    """Return why no NIC reaches the memory of a GPU of this name (nvidia-smi's); None for all that NICs can reach.

    DGX Spark: its memory is the CPU's, and what CUDA allocates there no PCIe device may access (DGX Spark Porting
    Guide, "GPUDirect RDMA").
    """
    if _WITHOUT_GPUDIRECT.search(name) is None:
        return None
    return f"{name} shares its memory with the CPU and has no GPUDirect RDMA: by NVIDIA's design"
