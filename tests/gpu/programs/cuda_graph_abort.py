"""A rank aborts its group while a CUDA graph with collectives waits for a rank that does not launch its own.

Rank 0 prints how long its GPU took to come to its end after the abort, and what the tensor then holds.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist

LIMIT_S = 20.0  # far beyond what the test allows: the abort ends the wait, and not the deadline
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
group = dist.new_group(backend="ccore", timeout=timedelta(seconds=LIMIT_S))
tensors = [torch.ones(count, device="cuda") for count in (1000, 3_000_000)]
for tensor in tensors:
    dist.all_reduce(tensor, group=group)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for tensor in tensors:
        tensor.fill_(1)
        dist.all_reduce(tensor, group=group)
graph.replay()
torch.cuda.synchronize()
assert [float(tensor[-1]) for tensor in tensors] == [size, size]
dist.barrier()
if rank == 0:
    graph.replay()
    graph.replay()
    time.sleep(0.1)
    begin = time.monotonic()
    group.abort()
    torch.cuda.synchronize()
    took_s = time.monotonic() - begin
    print(f"ended {took_s:.3f} s after the abort: {[float(tensor[-1]) for tensor in tensors]}", flush=True)
    try:
        dist.all_reduce(tensors[0], group=group)
        print("a later call did not raise", flush=True)
    except dist.DistBackendError as error:
        print(f"a later call raised: {error}", flush=True)
dist.barrier()
os._exit(0)
