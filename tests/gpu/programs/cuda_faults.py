"""A rank that meets a fault in all_reduce of a CUDA tensor. argv: the fault, and the number of elements.

"stuck": the GPU of rank 0 is busy for longer than the deadline. "missing": rank 1 does not call. "counts": rank 1
calls with another count. "killed": rank 1 is killed between two calls of many.
"""

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
fault, elements = sys.argv[1], int(sys.argv[2])
dist.init_process_group("ccore", timeout=timedelta(seconds=LIMIT_S))
rank = dist.get_rank()
gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(gpu)
tensor = torch.ones(elements + 1, device=gpu)
dist.all_reduce(tensor[:elements])
torch.cuda.synchronize()
begin = time.monotonic()


def call_and_wait() -> None:
    """Call, and ask until it has ended, as a program does that reads the result."""
    count = elements + 1 if fault == "counts" and rank == 1 else elements
    work = dist.all_reduce(tensor[:count], async_op=True)
    work.wait()
    while not work.is_completed():
        time.sleep(0.001)


try:
    if fault == "stuck" and rank == 0:
        torch.cuda._sleep(int(8 * 1.98e9))  # cycles: some 8 s
    if fault == "missing" and rank == 1:
        time.sleep(LIMIT_S + 4)
        # What this rank calls now is refused: the others have given up.
    for step in range(10_000 if fault == "killed" else 1):
        if fault == "killed" and rank == 1 and step == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        call_and_wait()
except dist.DistBackendError as error:
    print(f"after {time.monotonic() - begin:.2f} s: {error}")
else:
    os._exit(9)
# Later calls raise, too, and nothing is left on the GPU.
try:
    dist.all_reduce(torch.ones(10, device=gpu))
    os._exit(8)
except dist.DistBackendError:
    pass
if fault != "stuck":
    begin = time.monotonic()
    torch.cuda.synchronize()
    if time.monotonic() - begin > 1:
        os._exit(7)
os._exit(0)
