"""Compute and communicate at the same time: how much of an all_reduce is hidden behind matrix products.

Training hides communication behind computation. GPUs do so only if the two do not wait for each other: for the same
queue of the hardware, for memory bandwidth, or for the CPU.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from clusterctl.workloads.device.gemm import lacks, product
from clusterctl.workloads.device.measured import DeviceMeasured, short
from clusterctl.workloads.device.timing import settle

_GPU_SIDE, _CPU_SIDE = 8192, 256
_GPU_BYTES, _CPU_BYTES = 256 << 20, 1 << 20
_GPU_S, _CPU_S = 0.3, 0.05
_REPEATS = 3
_MEETING = "CLUSTERCTL_DEVICES_MEET"


def environment(rank: int, size: int, meeting: Path) -> dict[str, str]:
    """Return the variables by which the processes of a node's devices find each other, through a new file.

    A port would be free only when it is chosen: the process that listens on it starts seconds later.
    """
    return {"RANK": str(rank), "WORLD_SIZE": str(size), _MEETING: str(meeting)}


def measure(device: torch.device, timeout_s: float) -> Iterator[DeviceMeasured]:
    """Join the other devices of the node, and yield the share of the shorter of both that is hidden."""
    gpu = device.type == "cuda"
    dist.init_process_group(
        "nccl" if gpu else "gloo", init_method=f"file://{os.environ[_MEETING]}", rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]), timeout=timedelta(seconds=timeout_s),
    )  # fmt: skip
    try:
        yield _measured(device)
    finally:
        dist.destroy_process_group()


def _measured(device: torch.device) -> DeviceMeasured:
    gpu = device.type == "cuda"
    side = _GPU_SIDE if gpu else _CPU_SIDE
    kind = "bf16" if gpu and lacks("bf16", device) is None else "fp32"
    multiply = product(kind, (side, side, side), device)
    data = torch.zeros((_GPU_BYTES if gpu else _CPU_BYTES) // 4, device=device)

    def compute(calls: int) -> None:
        for _ in range(calls):
            multiply()

    def communicate(calls: int) -> list[dist.Work]:
        return [dist.all_reduce(data, async_op=True) for _ in range(calls)]

    def both(products: int, reductions: int) -> None:
        started = communicate(reductions)
        compute(products)
        for work in started:
            work.wait()

    def alone(calls: int) -> None:
        for work in communicate(calls):
            work.wait()

    seconds = _GPU_S if gpu else _CPU_S
    products = _calls(device, compute, seconds)
    reductions = _calls(device, alone, seconds)
    compute_s = _best(device, lambda: compute(products))
    communicate_s = _best(device, lambda: alone(reductions))
    both_s = _best(device, lambda: both(products, reductions))
    hidden = (compute_s + communicate_s - both_s) / min(compute_s, communicate_s)
    return DeviceMeasured(
        "hidden", short(max(0.0, min(1.0, hidden))), "share",
        detail={"compute_s": short(compute_s), "communicate_s": short(communicate_s), "both_s": short(both_s),
                "type": kind, "bytes": data.nbytes},
    )  # fmt: skip


def _calls(device: torch.device, work: Callable[[int], object], seconds: float) -> int:
    """Return how many calls take so long on the slowest device; all devices get the same number."""
    work(2)
    each = torch.tensor([_best(device, lambda: work(2)) / 2], dtype=torch.float64, device=device)
    dist.all_reduce(each, dist.ReduceOp.MAX)
    return max(1, math.ceil(seconds / float(each)))


def _best(device: torch.device, work: Callable[[], object]) -> float:
    """Return the seconds of the fastest repeat: other load only makes one longer."""
    times = []
    for _ in range(_REPEATS):
        dist.barrier()
        settle(device)
        started = time.perf_counter()
        work()
        settle(device)
        times.append(time.perf_counter() - started)
    return min(times)
