"""One rank of the torch part of core_vs_mpi.py: all_reduce of CPU tensors; rank 0 prints "bytes microseconds"."""

from __future__ import annotations

import statistics
import sys
import time

import torch
import torch.distributed as dist

BATCHES = 15


def maximum(value: float) -> float:
    """Return the largest value of any rank."""
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor[0])


def mean_us(tensor: torch.Tensor, calls: int) -> float:
    """Return microseconds per call."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor)
    return (time.perf_counter() - start) * 1e6 / calls


def main() -> None:
    """Arguments: backend, milliseconds for each size, sizes in bytes."""
    dist.init_process_group(backend=sys.argv[1])
    for size in map(int, sys.argv[3:]):
        tensor = torch.zeros(size // 4)
        once = maximum(mean_us(tensor, 5))
        calls = max(1, min(2000, int(float(sys.argv[2]) * 1e3 / BATCHES / once)))
        mean_us(tensor, calls)
        median = maximum(statistics.median(mean_us(tensor, calls) for _ in range(BATCHES)))
        if dist.get_rank() == 0:
            print(size, f"{median:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
