"""A rank that trains on the GPU and prints its parameters as JSON. argv: the backend or "alone", and a kind.

The kind is "ddp", "fp16", "topk" (DDP with that hook), "compiled", "fsdp2" or "tuned" (the bucket size).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist
from collective_core.bucket_tuning import tuned_ddp
from collective_core.ddp_hooks import TopkState, fp16_hook, topk_hook
from torch.nn.parallel import DistributedDataParallel

backend, kind = sys.argv[1:]
gpu = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
torch.cuda.set_device(gpu)
torch.manual_seed(7)
model: Any = torch.nn.Sequential(
    torch.nn.Linear(16, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
).to(gpu, torch.float32 if kind in ("fp16", "topk", "tuned") else torch.float64)  # fmt: skip
dtype = next(model.parameters()).dtype
data, target = torch.randn(12, 16, dtype=dtype).to(gpu), torch.randn(12, 4, dtype=dtype).to(gpu)
rank, size = 0, 1
if backend != "alone":
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    data, target = data[rank::size], target[rank::size]
    if kind == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh

        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:  # up to torch 2.5
            from torch.distributed._composable.fsdp import fully_shard

        mesh = init_device_mesh("cuda", (size,))
        for index in (0, 2):
            fully_shard(model[index], mesh=mesh)
        fully_shard(model, mesh=mesh)
    elif kind != "tuned":
        # Tiny buckets, so that several are under way at once; torch.compile wants none below its first of 1 MiB.
        model = DistributedDataParallel(
            model, device_ids=[gpu.index], bucket_cap_mb=25 if kind == "compiled" else 0.01
        )
        if kind == "fp16":
            model.register_comm_hook(None, fp16_hook)
        if kind == "topk":
            model.register_comm_hook(TopkState(ratio=0.5, threshold_bytes=1), topk_hook)
if kind == "compiled":
    model = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
losses = []


def step(module: Any) -> None:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(module(data), target)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


if kind == "tuned":
    tuned_ddp(model, step, candidates=(None, 0.01), warmup=2, samples=3, device_ids=[gpu.index])
else:
    for _ in range(8):
        step(model)
whole = [one.full_tensor() if hasattr(one, "full_tensor") else one for one in model.parameters()]
print(json.dumps({"losses": losses, "parameters": [one.detach().flatten().tolist() for one in whole]}))
if backend != "alone":
    dist.destroy_process_group()
