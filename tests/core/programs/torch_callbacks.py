"""A rank whose callbacks on Futures call collectives and wait for them, as torch's hooks that compress gradients do."""

from __future__ import annotations

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
Future = torch.futures.Future


def again(ended: Future) -> torch.Tensor:
    (total,) = ended.value()
    dist.all_reduce(total)
    dist.all_reduce(total, async_op=True).wait()
    doubled: torch.Tensor = dist.all_reduce(total, async_op=True).get_future().wait()[0]
    return doubled


# While they run, this thread calls others: all ranks must run them in one order.
for number in range(20):
    first, between = torch.ones(1 << 16), torch.full((3,), float(number))
    future = dist.all_reduce(first, async_op=True).get_future().then(again)
    dist.all_reduce(between)
    dist.broadcast(between, number % size)
    assert future.wait()[[0, -1]].tolist() == [size**4] * 2
    assert between.tolist() == [size * number] * 3

# What runs together with others cannot wait in the middle; it says so, and does not wait for ever.
told: list[str] = []


def refused(_: Future) -> None:
    for call in (
        lambda: dist.all_reduce(torch.ones(1)),
        lambda: dist.all_reduce(torch.ones(1), async_op=True).wait(),
    ):
        try:
            call()
        except RuntimeError as error:
            told.append(str(error))


received = torch.zeros(1)
got = dist.irecv(received, (rank - 1) % size)
future = got.get_future().then(refused)
dist.group.WORLD.monitored_barrier()  # nothing has come before the callback is there
if rank == 1:
    future.wait()  # what was refused does not run later either, before this rank has sent
sent = dist.isend(torch.full((1,), float(rank)), (rank + 1) % size)
future.wait()
sent.wait()
assert received.item() == (rank - 1) % size
assert len(told) == 2, told
assert all("all_reduce on rank" in one and "callback" in one for one in told), told

torch.manual_seed(3)
layers = [torch.nn.Linear(64, 64) for _ in range(3)]
model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.01)
model.register_comm_hook(
    powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook
)
for _ in range(4):
    model(torch.full((2, 64), 1.0 + rank)).square().mean().backward()
gradients = torch.cat([one.grad.flatten() for one in model.parameters()])
of_all = [torch.zeros_like(gradients) for _ in range(size)]
dist.all_gather(of_all, gradients)
assert gradients.abs().sum() > 0
assert all(torch.equal(one, gradients) for one in of_all)
dist.destroy_process_group()
print("done")
