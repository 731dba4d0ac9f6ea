"""A rank that calls an all_reduce right after batches of small sends and receives, many times.

The last transfer of a batch is reported complete a moment before the batch is closed, and the all_reduce may run on
the caller's own thread: it must not start in that moment. Every third round calls it while the batch is under way.
Every other batch is made as torch 2.4 makes those of CUDA tensors.
"""

from __future__ import annotations

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist

ROUNDS = 100


def start(calls: list[dist.P2POp], *, as_2_4: bool) -> list[dist.Work]:
    """Start a batch of transfers; return what to wait for."""
    if not as_2_4:
        return dist.batch_isend_irecv(calls)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as batch:
        for one in calls:
            one.op(one.tensor, one.peer)
    return batch.works


dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
following, previous = (rank + 1) % size, (rank - 1) % size
total = torch.zeros(1, dtype=torch.int64)
for number in range(ROUNDS):
    sent = [torch.full((1 + index,), 1000 * number + 10 * rank + index) for index in range(3)]
    received = [torch.zeros_like(one) for one in sent]
    works = start(
        [dist.P2POp(dist.isend, one, following) for one in sent]
        + [dist.P2POp(dist.irecv, one, previous) for one in received],
        as_2_4=number % 2 == 1,
    )
    if number % 3:
        for work in works:
            work.wait()
    total.fill_(number + rank)
    dist.all_reduce(total)
    for work in works:
        work.wait()
    assert all(work.is_completed() for work in works)
    assert total.item() == size * number + size * (size - 1) // 2, (number, total)
    for index, one in enumerate(received):
        assert (one == 1000 * number + 10 * previous + index).all(), (number, one)
# destroy_process_group of torch 2.4 calls this function alone, and newer releases call shutdown() of the group.
vars(dist.distributed_c10d)["_shutdown_backend"] = lambda group: None
other = dist.new_group(backend="ccore")
vars(dist.distributed_c10d)["_shutdown_backend"](other)
try:
    dist.all_reduce(total, group=other)
except RuntimeError:
    pass
else:
    raise AssertionError("a group that was shut down carried out an all_reduce")
dist.destroy_process_group()
print("rounds", ROUNDS)
