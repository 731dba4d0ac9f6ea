"""A rank that trains the same small network densely, by top-k with and without error feedback, under DDP.

Prints the losses, what the log said, and whether all ranks ended with the same bits, as JSON.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist
from collective_core.ddp_hooks import TopkState, fp16_hook, from_environment, topk_hook
from torch.nn.parallel import DistributedDataParallel

told: list[str] = []


class Listener(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        told.append(record.getMessage())


logging.getLogger("collective_core").addHandler(Listener())
torch.set_num_threads(1)
dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(128, 16, generator=generator)
    teacher = torch.nn.Sequential(torch.nn.Linear(16, 12), torch.nn.Tanh(), torch.nn.Linear(12, 4))
    for parameter in teacher.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    noise = torch.randn(128, 4, generator=generator)
    return inputs, teacher(inputs).detach() + 0.7 * noise


def network() -> torch.nn.Module:
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.Tanh(), torch.nn.Linear(24, 4))


def train(hook: tuple[Any, Any] | None, steps: int) -> tuple[float, bool]:
    """Return the loss over all data, and whether the parameters agree between the ranks."""
    model = DistributedDataParallel(network(), bucket_cap_mb=0.001)
    if hook is not None:
        model.register_comm_hook(*hook)
    inputs, targets = data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs[rank::size]), targets[rank::size]).backward()
        optimizer.step()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyone = [torch.empty_like(flat) for _ in range(size)]
    dist.all_gather(everyone, flat)
    with torch.no_grad():
        loss = float(torch.nn.functional.mse_loss(model.module(inputs), targets))
    return loss, all(torch.equal(flat, other) for other in everyone)


def topk(**given: Any) -> tuple[TopkState, Any]:
    return TopkState(ratio=0.01, threshold_bytes=1, **given), topk_hook


STEPS = 300
feedback, forgetful, warmed = topk(), topk(error_feedback=False), topk(warmup_steps=1000)
report: dict[str, Any] = {
    "dense": train(None, STEPS),
    "half": train((None, fp16_hook), STEPS),
    "feedback": train(feedback, STEPS),
    "forgetful": train(forgetful, STEPS),
    "short_dense": train(None, 3),
    "short_warm": train(warmed, 3),
    "told": told,
    "residuals": len(feedback[0].residuals),
    "held": [residual.state().steps for residual in feedback[0].residuals.values()],
}
report["registered"] = from_environment(DistributedDataParallel(network())) is not None
print(json.dumps(report))
dist.destroy_process_group()
