"""A rank that trains on GPU 0, which all ranks share. argv: "nccl", "nccl+ccore" or "ccore", and a kind.

The kind is "ddp", "compiled" or "fsdp2". Prints JSON: a hash of the parameters, the sums of a few collectives, and what
the NCCL-symbol library did.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

backend, kind = sys.argv[1:]
if backend == "nccl+ccore":
    from collective_core import nccl_shim

import torch  # noqa: E402  # after the NCCL-symbol library
import torch.distributed as dist  # noqa: E402

from clusterctl.workloads import shared_gpu  # noqa: E402

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if backend == "ccore":
    import collective_core.torch_backend  # noqa: F401  # registers ccore
else:
    shared_gpu.prepare_nccl(
        shared_gpu.nccl_version(shared_gpu.loaded_nccl()), host="gpu", local_rank=rank, gpus=1, per_gpu=size
    )
torch.cuda.set_device(0)
dist.init_process_group(backend.partition("+")[0])
torch.manual_seed(1)
layers = [layer for _ in range(3) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU())]
model: Any = torch.nn.Sequential(*layers).to("cuda")
if kind == "fsdp2":
    from torch.distributed.fsdp import fully_shard

    for layer in model[::2]:
        fully_shard(layer)
    fully_shard(model)
else:
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=1)
if kind == "compiled":
    model = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
torch.manual_seed(100 + rank)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(32, 256, device="cuda")).square().mean().backward()
    optimizer.step()
digest = hashlib.sha256()
for parameter in model.parameters():
    whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
    digest.update(whole.detach().cpu().numpy().tobytes())
# More than one size and type, in a graph and out of it.
whole = torch.full((100_003,), rank + 1.0, device="cuda", dtype=torch.bfloat16)
dist.all_reduce(whole)
sums = [float(whole.min()), float(whole.max())]
if backend != "ccore":
    small = torch.zeros(1000, device="cuda")
    dist.all_reduce(small)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(small)
    small.fill_(rank + 1.0)
    graph.replay()
    sums.append(float(small.max()))
    torch.cuda.synchronize()
    del graph
report = nccl_shim.report() if backend == "nccl+ccore" else None
print(json.dumps({"parameters": digest.hexdigest(), "sums": sums, "report": report}))
dist.destroy_process_group()
