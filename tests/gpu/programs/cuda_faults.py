"""A rank that meets a fault in all_reduce of a CUDA tensor. argv: "stuck" or "killed", and the number of elements."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist

LIMIT_S = 3.0
dist.init_process_group("ccore", timeout=timedelta(seconds=LIMIT_S))
rank = dist.get_rank()
tensor = torch.ones(int(sys.argv[2]), device="cuda:0")
dist.all_reduce(tensor)
torch.cuda.synchronize()
begin = time.monotonic()
try:
    if sys.argv[1] == "stuck":
        if rank == 0:
            torch.cuda._sleep(int(8 * 1.98e9))  # cycles: some 8 s
        dist.all_reduce(tensor)
    else:
        for step in range(10_000):
            if rank == 1 and step == 20:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(tensor)
except dist.DistBackendError as error:
    print(f"after {time.monotonic() - begin:.1f} s: {error}")
    os._exit(0)
os._exit(9)
