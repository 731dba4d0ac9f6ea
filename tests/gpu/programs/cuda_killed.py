"""Kill or stop the last of several ranks at random moments, and check what the other ranks read.

argv: how many moments, and a seed. CCORE_CUDA_PATH chooses the path. The ranks of a moment are forked from this
process, which has imported torch but uses no GPU, so that a moment takes a second. They call random collectives and
check each result: an element must be right or invalid. Some of a large one may be right, since it consists of parts.
The other ranks must raise by the deadline, and their GPU must come to its end. Prints a line per moment, and ends with
1 if one failed.
"""

from __future__ import annotations

import math
import os
import random
import signal
import socket
import sys
import threading
import time
from datetime import timedelta

import collective_core.torch
import collective_core.torch_backend  # registers ccore
import torch
import torch.distributed as dist

SIZE = 2
LIMIT_S = 1.0
# After the deadline, until the error is raised. The CPUs' communicator asks a stopped rank for 0.5 s what it does.
GRACE_S = 1.0
MOMENT_S = 20.0
COUNTS = (1000, 100_000, 200_000, 3_000_000)  # of float32: each way of each path
WRONG, UNRAISED, LATE, HUNG = 11, 12, 13, 14


def check(name: str, tensor: torch.Tensor, wanted: float) -> None:
    """Read the first, middle and last element, and exit if one is neither right nor invalid."""
    flat = tensor.flatten()
    found = [float(flat[at].item()) for at in (0, flat.numel() // 2, flat.numel() - 1)]
    if not all(value == wanted or math.isnan(value) for value in found):
        print(f"{name}: {found} where {wanted} was expected", flush=True)
        os._exit(WRONG)


def call(group: dist.ProcessGroup, choice: random.Random, rank: int) -> None:
    """Make one call that all ranks choose alike, and read its result."""
    name = choice.choice(
        ("all_reduce", "all_reduce", "all_reduce", "reduce_scatter", "all_gather", "all_to_all")
    )
    count, is_async = choice.choice(COUNTS), choice.random() < 0.5
    given = torch.full((count,), rank + 1.0, device="cuda")
    total = SIZE * (SIZE + 1) / 2
    if name == "all_reduce":
        output, wanted = given, total
        work = dist.all_reduce(output, group=group, async_op=is_async)
    elif name == "reduce_scatter":
        output, wanted = torch.empty(count // SIZE, device="cuda"), total
        work = dist.reduce_scatter_tensor(output, given, group=group, async_op=is_async)
    elif name == "all_gather":
        every = torch.empty(SIZE * count, device="cuda")
        output, wanted = every[-count:], float(SIZE)
        work = dist.all_gather_into_tensor(every, given, group=group, async_op=is_async)
    else:
        blocks = torch.empty(count, device="cuda")
        output, wanted = blocks[-(count // SIZE) :], float(SIZE)
        work = dist.all_to_all_single(blocks, given, group=group, async_op=is_async)
    if is_async:
        work.wait()
    check(f"{name} of {count}, {'async' if is_async else 'sync'}", output, wanted)


def rank_main(rank: int, port: int, seed: int, how: signal.Signals, after_s: float) -> None:
    """Be one rank of a moment; ends the process."""
    torch.cuda.set_device(0)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", address, timedelta(seconds=60), world_size=SIZE, rank=rank)
    group = dist.new_group(backend="ccore", timeout=timedelta(seconds=LIMIT_S))
    choice = random.Random(seed)
    call(group, choice, rank)
    dist.barrier()
    if rank == SIZE - 1:
        threading.Timer(after_s, os.kill, (os.getpid(), how)).start()
    begin = good = time.monotonic()
    while time.monotonic() - begin < after_s + 2 * LIMIT_S + GRACE_S:
        try:
            call(group, choice, rank)
            good = time.monotonic()
        except RuntimeError as error:
            took_s = time.monotonic() - good
            torch.cuda.synchronize()
            path = collective_core.torch.describe(group)["cuda_path"]
            print(f"raised after {took_s:.2f} s ({path}): {str(error)[:160]}", flush=True)
            os._exit(LATE if took_s > LIMIT_S + GRACE_S else 0)
    os._exit(UNRAISED)


def moment(number: int, choice: random.Random) -> bool:
    """Run the ranks of a moment; return whether all that lived on ended well."""
    how = choice.choice((signal.SIGKILL, signal.SIGSTOP))
    after_s, seed = choice.uniform(0, 0.3), choice.randrange(2**31)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ["CCORE_JOB_SECRET"] = f"gpu tests {port}"
    ranks = []
    for rank in range(SIZE):
        if (pid := os.fork()) == 0:
            try:
                rank_main(rank, port, seed, how, after_s)
            finally:
                os._exit(1)
        ranks.append(pid)
    codes = []
    end = time.monotonic() + MOMENT_S
    for pid in ranks[:-1]:
        while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
            time.sleep(0.01)
        if ended == (0, 0):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        codes.append(HUNG if ended == (0, 0) else os.waitstatus_to_exitcode(ended[1]))
    os.kill(ranks[-1], signal.SIGKILL)
    os.waitpid(ranks[-1], 0)
    print(f"moment {number}: {how.name} after {after_s:.3f} s, ranks ended with {codes}", flush=True)
    return not any(codes)


if __name__ == "__main__":
    moments = random.Random(int(sys.argv[2]))
    fine = [moment(number, moments) for number in range(int(sys.argv[1]))]
    print(f"{sum(fine)} of {len(fine)} ended well", flush=True)
    sys.exit(0 if all(fine) else 1)
