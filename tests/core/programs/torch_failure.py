"""A rank that trains under DDP until rank 1 is gone, then prints the error that it got, as JSON."""

from __future__ import annotations

import json
import os
import time

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("ccore")
model = DistributedDataParallel(torch.nn.Linear(64, 64))
told = []
began = time.monotonic()
for step in range(10):
    if step == 3 and dist.get_rank() == 1:
        os._exit(9)
    began = time.monotonic()
    try:
        model(torch.randn(8, 64)).sum().backward()
    except RuntimeError as error:
        told.append(str(error))
        break
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError as error:
    told.append(f"{type(error).__name__}: {error}")
print(json.dumps({"told": told, "after_s": time.monotonic() - began}))
dist.destroy_process_group()
