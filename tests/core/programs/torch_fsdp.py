"""A rank that trains with sharded parameters and prints them whole as JSON. argv: the backend or "alone", the API.

The API is "wrapper" (FullyShardedDataParallel) or "fully_shard" (FSDP2, on CPUs since torch 2.6).
"""

from __future__ import annotations

import json
import sys
from typing import Any

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist


def make_model() -> torch.nn.Module:
    torch.manual_seed(7)
    # Sizes that two and three ranks do not divide: shards are padded.
    layers = [
        torch.nn.Linear(15, 33),
        torch.nn.ReLU(),
        torch.nn.Linear(33, 7),
        torch.nn.ReLU(),
        torch.nn.Linear(7, 5),
    ]
    return torch.nn.Sequential(*layers).double()


def wrapped(model: Any) -> torch.nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    for index in (0, 2):
        model[index] = FullyShardedDataParallel(model[index], device_id=torch.device("cpu"))
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"))


def fully_sharded(model: Any) -> torch.nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for index in (0, 2):
        fully_shard(model[index], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def whole(model: torch.nn.Module, api: str) -> list[list[float]]:
    if api == "wrapper":
        from torch.distributed.fsdp import FullyShardedDataParallel

        with FullyShardedDataParallel.summon_full_params(model, writeback=False):
            return [parameter.detach().flatten().tolist() for parameter in model.parameters()]
    return [parameter.full_tensor().detach().flatten().tolist() for parameter in model.parameters()]


backend, api = sys.argv[1:]
model = make_model()
data, target = torch.randn(12, 15, dtype=torch.float64), torch.randn(12, 5, dtype=torch.float64)
if backend != "alone":
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    model = wrapped(model) if api == "wrapper" else fully_sharded(model)
    data, target = data[rank::size], target[rank::size]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(5):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(data), target).backward()
    optimizer.step()
if backend == "alone":
    print(json.dumps([parameter.detach().flatten().tolist() for parameter in model.parameters()]))
else:
    print(json.dumps(whole(model, api)))
    dist.destroy_process_group()
