"""A rank that trains a small network by Horovod's API: densely, and by top-k as the environment says.

Prints the losses, whether all ranks ended with the same bits, and how often top-k was called, as JSON. With an
argument, rank 0 alone is set to use top-k, and what its step says is printed.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import collective_core.horovod.torch as hvd
import torch
from collective_core.communicator import Operation
from collective_core.horovod import world

torch.set_num_threads(1)
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(128, 16, generator=generator)
    teacher = torch.nn.Sequential(torch.nn.Linear(16, 12), torch.nn.Tanh(), torch.nn.Linear(12, 4))
    for parameter in teacher.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    noise = torch.randn(128, 4, generator=generator)
    return inputs, teacher(inputs).detach() + 0.7 * noise


def train(topk: bool, steps: int) -> dict[str, Any]:
    os.environ["CCORE_TOPK_ALLREDUCE"] = str(int(topk))
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.Tanh(), torch.nn.Linear(24, 4))
    inputs, targets = data()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.005), model.named_parameters()
    )
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs[RANK::SIZE]), targets[RANK::SIZE]).backward()
        optimizer.step()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyone = hvd.allgather(flat.unsqueeze(0))
    with torch.no_grad():
        loss = float(torch.nn.functional.mse_loss(model(inputs), targets))
    compressed = world.current().group(0).communicator.stats().get(Operation.TOPK_ALL_REDUCE)
    return {
        "loss": loss,
        "equal": bool((everyone == flat).all()),
        "compressed": compressed.calls if compressed is not None else 0,
    }


if len(sys.argv) > 1:
    try:
        train(RANK == 0, 1)
    except hvd.HorovodInternalError as error:
        print(error)
else:
    report = {"dense": train(False, 1200), "topk": train(True, 1200)}
    print(json.dumps(report))
hvd.shutdown()
