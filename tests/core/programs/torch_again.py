"""A rank that makes groups again and again with one store, as a program does whose launcher keeps the store."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(
    os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0, timeout=timedelta(seconds=60)
)
for _ in range(3):
    if rank == 0:
        time.sleep(0.3)  # the others are there first, and must not find the id of the group before
    dist.init_process_group("ccore", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
    for group in (None, dist.new_group()):
        total = torch.ones(1)
        dist.all_reduce(total, group=group)
        assert total.item() == size
    dist.destroy_process_group()

# A group whose first rank does not come is waited for as long as that group may take, not the store.
dist.init_process_group("ccore", store=store, rank=rank, world_size=size)
told = ""
began = time.monotonic()
if rank != 0:
    try:
        dist.new_group(timeout=timedelta(seconds=2))
    except RuntimeError as error:
        told = str(error)
    assert "ccore_unique_id" in told, told
    assert time.monotonic() - began < 30
dist.barrier()
dist.destroy_process_group()
print("done")
