"""A rank whose all_reduce competes with NCCL on GPU 0, which all ranks share. argv: sizes in bytes, or nothing.

For each size it calls until the tuner has chosen, and checks every sum. Prints JSON: for each size the median of timed
calls in us by events, then what the NCCL-symbol library reports.
"""

from __future__ import annotations

import json
import os
import statistics
import sys

from collective_core import nccl_shim

# isort: split
import torch  # after the NCCL-symbol library
import torch.distributed as dist

from clusterctl.workloads import shared_gpu

# Warm-up, trials of four candidates, and boundaries until the events of a fast caller have ended.
MOST_CALLS, TIMED = 600, 50
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
shared_gpu.prepare_nccl(
    shared_gpu.nccl_version(shared_gpu.loaded_nccl()), host="gpu", local_rank=rank, gpus=1, per_gpu=size
)
torch.cuda.set_device(0)
dist.init_process_group("nccl")
dist.all_reduce(torch.zeros(1, device="cuda"))  # makes NCCL's communicator
expected = float(size * (size + 1) // 2)


def choices() -> int:
    return len(nccl_shim.report()["choices"])


def check(tensor: torch.Tensor, call: int) -> None:
    low, high = (float(one) for one in torch.aminmax(tensor))
    assert low == high == expected, f"rank {rank}, {tensor.numel() * 4} bytes, call {call}: {low} to {high}"


def settle(tensor: torch.Tensor) -> int:
    """Call and check; return the number of calls after which this rank had a choice, or all of them."""
    before = choices()
    for call in range(MOST_CALLS):
        tensor.fill_(rank + 1.0)
        dist.all_reduce(tensor)
        check(tensor, call)
        if choices() > before:
            return call + 1
    return MOST_CALLS


def median_us(tensor: torch.Tensor) -> float:
    tensor.zero_()
    times = []
    for _ in range(TIMED):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        dist.all_reduce(tensor)
        end.record()
        times.append((begin, end))
    torch.cuda.synchronize()
    return 1000 * statistics.median(begin.elapsed_time(end) for begin, end in times)


rows = []
for bytes_of in map(int, sys.argv[1:]):
    whole = torch.empty(bytes_of // 4, device="cuda")
    calls = settle(whole) if os.environ.get("CCORE_AUTOTUNE") != "0" else 0
    row = {"bytes": bytes_of, "calls": calls, "us": median_us(whole)}
    whole.fill_(rank + 1.0)
    dist.all_reduce(whole)
    check(whole, -1)
    # What is captured takes the choice, and counts as no call.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(whole)
    for _ in range(3):
        whole.fill_(rank + 1.0)
        graph.replay()
        check(whole, -2)
    torch.cuda.synchronize()
    del graph
    rows.append(row)
print(json.dumps({"rows": rows, "report": nccl_shim.report()}))
dist.destroy_process_group()
