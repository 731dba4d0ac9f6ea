"""Write patterns to almost all free memory of a device, and read them back: a value that changed is a fault.

All of the memory is written before the first value is read, so that values come from the memory, not from a cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from clusterctl.workloads.device.measured import DeviceMeasured

_GPU_CHUNK_BYTES, _CPU_CHUNK_BYTES, _CPU_CHUNKS = 256 << 20, 1 << 20, 2
_SHARE = 0.92
# All bits off and on, then each bit differs from its neighbours, in both ways.
_CONSTANTS = (0, -1, 0x5555555555555555, -0x5555555555555556)


def _chunks(device: torch.device) -> list[torch.Tensor]:
    size, count = _CPU_CHUNK_BYTES, _CPU_CHUNKS
    if device.type == "cuda":
        size = _GPU_CHUNK_BYTES
        count = int(torch.cuda.mem_get_info(device)[0] * _SHARE) // size
    return [torch.empty(size // 8, dtype=torch.int64, device=device) for _ in range(count)]


def measure(device: torch.device) -> Iterator[DeviceMeasured]:
    """Yield the number of values that changed, with the bytes that were tested in the detail."""
    size = (_GPU_CHUNK_BYTES if device.type == "cuda" else _CPU_CHUNK_BYTES) // 8
    addresses = torch.arange(size, dtype=torch.int64, device=device)
    chunks = _chunks(device)
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    for constant in _CONSTANTS:
        for chunk in chunks:
            chunk.fill_(constant)
        for chunk in chunks:
            wrong += (chunk != constant).sum()
    # A value of its own for each address: what was written to a wrong address is found as well.
    for number, chunk in enumerate(chunks):
        torch.add(addresses, number * size, out=chunk)
    for number, chunk in enumerate(chunks):
        wrong += (chunk.sub_(number * size) != addresses).sum()
    tested = sum(chunk.nbytes for chunk in chunks)
    yield DeviceMeasured(
        "wrong", float(wrong), "values", detail={"bytes": tested, "patterns": len(_CONSTANTS) + 1}
    )
