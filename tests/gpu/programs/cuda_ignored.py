"""A rank that trains on with DDP and ignores every error, while the last rank stops calling after a few steps.

Rank 0 prints a line per step: the loss, or "raised".
"""

from __future__ import annotations

import os
import time
from datetime import timedelta

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist

LIMIT_S = 3.0  # the ranks of other tests run beside these
STEPS, LAST_STEP = 12, 4
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(gpu)
torch.manual_seed(0)
layers = [torch.nn.Linear(512, 512) for _ in range(4)]
local = torch.nn.Sequential(*layers).to(gpu)
dist.barrier()
group = dist.new_group(backend="ccore", timeout=timedelta(seconds=LIMIT_S))
model = torch.nn.parallel.DistributedDataParallel(local, device_ids=[gpu], process_group=group)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
given = torch.randn(64, 512, device=gpu)
for step in range(STEPS):
    if rank == size - 1 and step == LAST_STEP:
        time.sleep(LIMIT_S + 6)
        break
    try:
        optimizer.zero_grad()
        loss = model(given).square().mean()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item()}", flush=True)
    except RuntimeError as error:  # DDP's reducer raises its own, too
        print(f"step {step}: raised {str(error)[:150]}", flush=True)
os._exit(0)
