"""A rank that trains under DDP with fewer batches than its neighbour, and compares its parameters with one process.

The ranks that still have batches average among themselves: DDP counts them by a sum whose work it keeps in C++.
"""

from __future__ import annotations

import copy

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BATCHES = (2, 5)

torch.manual_seed(7)
dist.init_process_group("ccore")
rank = dist.get_rank()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).double()
alone = copy.deepcopy(model)
batches = [[torch.randn(3, 8, dtype=torch.float64) for _ in range(count)] for count in BATCHES]

# DDP matches the unused parameters by a call without a list or options.
parallel = DistributedDataParallel(model, find_unused_parameters=True)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
with parallel.join(divide_by_initial_world_size=False):
    for batch in batches[rank]:
        optimizer.zero_grad()
        parallel(batch).square().sum().backward()
        optimizer.step()

optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
for step in range(max(BATCHES)):
    joined = [of_rank[step] for of_rank in batches if step < len(of_rank)]
    optimizer.zero_grad()
    (sum(alone(batch).square().sum() for batch in joined) / len(joined)).backward()
    optimizer.step()
for got, wanted in zip(model.parameters(), alone.parameters(), strict=True):
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
dist.destroy_process_group()
print("done")
