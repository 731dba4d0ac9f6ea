"""A rank with two groups on different GPUs: random calls on both in turn, half of them while another GPU is current.

argv: seconds. LOCAL_RANK is the device of the first group; the second has the next visible one. Every result is checked
on the GPU. Prints the path of each group, the number of calls, and "done".
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from dataclasses import dataclass
from typing import Any

import collective_core.torch
import collective_core.torch_backend  # registers ccore
import torch
import torch.distributed as dist

MOST_BYTES = 8 << 20
LOOK_EVERY = 20
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.float64)

limit_s = float(sys.argv[1])
dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
devices = torch.cuda.device_count()
own = int(os.environ["LOCAL_RANK"])


@dataclass
class Place:
    """A group, the device of this rank in it, and another device if there is one."""

    group: Any
    device: torch.device
    elsewhere: int


def place(group: Any, device: int) -> Place:
    return Place(group, torch.device("cuda", device), (device + 1) % devices)


def given(of: int, step: int, count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return what a rank contributes to a step: small integers, whose sums are exact in every type."""
    return ((torch.arange(count, device=device) * (of + 3) + step) % 7 - 3).to(dtype)


def all_reduce(at: Place, step: int, count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    tensor = given(rank, step, count, dtype, at.device)
    every = torch.stack([given(one, step, count, dtype, at.device) for one in range(size)])
    if step % 2:
        dist.all_reduce(tensor, dist.ReduceOp.MAX, group=at.group)
        return tensor, every.amax(0)
    dist.all_reduce(tensor, group=at.group)
    return tensor, every.double().sum(0).to(dtype)


def reduce_scatter(at: Place, step: int, count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    output = torch.empty(count, dtype=dtype, device=at.device)
    dist.reduce_scatter_tensor(output, given(rank, step, count * size, dtype, at.device), group=at.group)
    every = torch.stack([given(one, step, count * size, dtype, at.device) for one in range(size)])
    return output, every.double().sum(0).to(dtype).view(size, count)[rank]


def all_gather(at: Place, step: int, count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    output = torch.empty(count * size, dtype=dtype, device=at.device)
    dist.all_gather_into_tensor(output, given(rank, step, count, dtype, at.device), group=at.group)
    return output, torch.cat([given(one, step, count, dtype, at.device) for one in range(size)])


def broadcast(at: Place, step: int, count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    tensor = given(rank, step, count, dtype, at.device)
    dist.broadcast(tensor, step % size, group=at.group)
    return tensor, given(step % size, step, count, dtype, at.device)


def all_to_all(at: Place, step: int, count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    output = torch.empty(count * size, dtype=dtype, device=at.device)
    dist.all_to_all_single(output, given(rank, step, count * size, dtype, at.device), group=at.group)
    every = [given(one, step, count * size, dtype, at.device).view(size, count)[rank] for one in range(size)]
    return output, torch.cat(every)


def transfer(at: Place, step: int, count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    output = torch.empty(count, dtype=dtype, device=at.device)
    sent = given(rank, step, count, dtype, at.device)
    moves = [
        dist.P2POp(dist.isend, sent, (rank + 1) % size, group=at.group),
        dist.P2POp(dist.irecv, output, (rank - 1) % size, group=at.group),
    ]
    for work in dist.batch_isend_irecv(moves):
        work.wait()
    return output, given((rank - 1) % size, step, count, dtype, at.device)


CALLS = (all_reduce, all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, transfer)


def step_of(places: list[Place], step: int, draws: random.Random) -> None:
    """Make one call that all ranks draw alike, and check it."""
    at, call, dtype = draws.choice(places), draws.choice(CALLS), draws.choice(DTYPES)
    most = MOST_BYTES // dtype.itemsize
    count = int(math.exp(draws.uniform(0, math.log(most))))
    current = draws.choice((at.elsewhere, at.device.index))
    torch.cuda.set_device(current)
    got, wanted = call(at, step, count, dtype)
    assert torch.cuda.current_device() == current, "a call changed the current device"
    assert torch.equal(got, wanted), (rank, step, call.__name__, count, dtype, at.device)


def main() -> None:
    """Run until the time is over on the slowest rank."""
    places = [place(dist.group.WORLD, own), place(dist.new_group(range(size)), (own + 1) % devices)]
    draws, begin, step = random.Random(20), time.monotonic(), 0
    over = torch.zeros(1)
    while not over.item():
        for _ in range(LOOK_EVERY):
            step_of(places, step, draws)
            step += 1
        over.fill_(time.monotonic() - begin > limit_s)
        dist.all_reduce(over, dist.ReduceOp.MAX)
    for number, at in enumerate(places):
        dist.barrier(group=at.group)
        print(f"group {number} on {at.device}: {collective_core.torch.describe(at.group)['cuda']}")
    print(f"{step} calls in {time.monotonic() - begin:.1f} s")
    dist.destroy_process_group()
    print("done")


main()
