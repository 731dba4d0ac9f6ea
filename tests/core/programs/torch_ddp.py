"""A rank that trains under DDP and prints its parameters as JSON. argv[1]: the backend, or "alone"."""

from __future__ import annotations

import itertools
import json
import sys

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
model: torch.nn.Module = torch.nn.Sequential(
    torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
).double()
data, target = torch.randn(12, 16, dtype=torch.float64), torch.randn(12, 4, dtype=torch.float64)
alone = sys.argv[1] == "alone"
if not alone:
    dist.init_process_group(sys.argv[1])
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:  # DDP must bring the parameters of rank 0 to all
        for parameter in model.parameters():
            torch.nn.init.zeros_(parameter)
    # Tiny buckets, so that several are under way at once.
    model = DistributedDataParallel(model, bucket_cap_mb=0.01)
    data, target = data[rank::size], target[rank::size]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
# Each epoch forks a worker that loads the data, while connections and memory of the process group are in use.
loader = DataLoader(
    TensorDataset(data, target), batch_size=len(data), num_workers=1, multiprocessing_context="fork"
)
for data, target in itertools.chain.from_iterable(loader for _ in range(5)):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(data), target)
    loss.backward()
    optimizer.step()
print(json.dumps([parameter.detach().flatten().tolist() for parameter in model.parameters()]))
if not alone:
    dist.destroy_process_group()
