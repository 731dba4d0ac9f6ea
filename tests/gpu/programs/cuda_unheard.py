"""A rank that calls nothing more after an operation to which the last rank does not come."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist

LIMIT_S = 1.0
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(gpu)
# Too large for the CPUs, which would raise in the call.
tensor = torch.ones(3_000_000, device=gpu)
dist.barrier()
group = dist.new_group(backend="ccore", timeout=timedelta(seconds=LIMIT_S))
dist.all_reduce(tensor, group=group)
torch.cuda.synchronize()
if rank < size - 1:
    dist.all_reduce(tensor, group=group)
begin = time.monotonic()
try:
    while time.monotonic() - begin < 20:
        time.sleep(0.05)
except dist.DistBackendError as error:
    print(f"after {time.monotonic() - begin:.1f} s: {error}", flush=True)
    os._exit(0)
os._exit(9)
