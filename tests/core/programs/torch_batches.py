"""A rank that calls an all_reduce right after batches of small sends and receives, many times.

The last transfer of a batch is reported complete a moment before the batch is closed, and the all_reduce may run on
the caller's own thread: it must not start in that moment. Every third round calls it while the batch is under way.
"""

from __future__ import annotations

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist

ROUNDS = 100

dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
following, previous = (rank + 1) % size, (rank - 1) % size
total = torch.zeros(1, dtype=torch.int64)
for number in range(ROUNDS):
    sent = [torch.full((1 + index,), 1000 * number + 10 * rank + index) for index in range(3)]
    received = [torch.zeros_like(one) for one in sent]
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, one, following) for one in sent]
        + [dist.P2POp(dist.irecv, one, previous) for one in received]
    )
    if number % 3:
        for work in works:
            work.wait()
    total.fill_(number + rank)
    dist.all_reduce(total)
    for work in works:
        work.wait()
    assert total.item() == size * number + size * (size - 1) // 2, (number, total)
    for index, one in enumerate(received):
        assert (one == 1000 * number + 10 * previous + index).all(), (number, one)
dist.destroy_process_group()
print("rounds", ROUNDS)
