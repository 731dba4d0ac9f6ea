"""Horovod's optimizer with top-k: the same gradients on the GPU and on the CPUs, and where they were selected.

CCORE_INTRA_SIZE cuts the machine into nodes. argv[1]: "gpus" or "cpus", where gradients of the GPU must be selected.
Prints a line per group of cases, then "done".
"""

from __future__ import annotations

import os
import sys
from typing import Any

import collective_core.horovod.torch as hvd
import torch
from collective_core.horovod import usage_recorder, world

os.environ |= {"CCORE_TOPK_ALLREDUCE": "1", "CCORE_TOPK_RATIO": "0.01", "CCORE_TOPK_THRESHOLD": "1"}
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
gpu = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
torch.cuda.set_device(gpu)
generator = torch.Generator().manual_seed(RANK)
STEPS = 4
# Of one bucket, so the tensors of a type are fused.
SHAPES = {
    "first": (300_001, torch.float32),
    "halves": (50_001, torch.float16),
    "second": (7, torch.float32),
    "brain": (50_003, torch.bfloat16),
    "third": (20_000, torch.float32),
    "doubles": (30_000, torch.float64),  # has no top-k
}
TYPES_WITH_TOPK = 3


def gradient(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers whose sums over all ranks are exact, and so do not depend on their order."""
    limit = 1 << 18 if dtype in (torch.float32, torch.float64) else 60
    return (torch.randint(-limit, limit, (count,), generator=generator) / 64).to(dtype)


class Model:
    """Parameters on one device, and their optimizer."""

    def __init__(self, device: torch.device) -> None:
        self.parameters = {
            name: torch.nn.Parameter(torch.zeros(count, dtype=dtype, device=device))
            for name, (count, dtype) in SHAPES.items()
        }
        self.optimizer: Any = hvd.DistributedOptimizer(
            torch.optim.SGD(self.parameters.values(), lr=1.0),
            [(f"{device.type}.{name}", parameter) for name, parameter in self.parameters.items()],
        )

    def step(self, gradients: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Give each parameter its gradient by a backward pass; return what the optimizer makes of them."""
        self.optimizer.zero_grad()
        sum(
            (parameter * gradients[name].to(parameter.device)).sum().double()
            for name, parameter in self.parameters.items()
        ).backward()
        self.optimizer.synchronize()
        return {name: one.grad.cpu() for name, one in self.parameters.items() if one.grad is not None}

    def residuals(self) -> list[Any]:
        """Return what each fused tensor has not sent."""
        held = self.optimizer._reducer._residuals
        return [(str(dtype), one.state()) for bucket in held for dtype, one in bucket.items()]


def equal_to_the_cpus() -> None:
    on_gpu, on_host = Model(gpu), Model(torch.device("cpu"))
    recorder = usage_recorder()
    recorder.skip()
    for step in range(STEPS):
        given = {name: gradient(count, dtype) for name, (count, dtype) in SHAPES.items()}
        ours, theirs = on_gpu.step(given), on_host.step(given)
        for name, wanted in theirs.items():
            differ = int((ours[name] != wanted).sum())
            assert torch.equal(ours[name], wanted), f"rank {RANK}, step {step}, {name}: {differ} differ"
        assert on_gpu.residuals() == on_host.residuals(), f"rank {RANK}, step {step}: residuals differ"
        recorder.look()
    held = on_gpu.residuals()
    assert len(held) == TYPES_WITH_TOPK
    assert all(state.steps == STEPS and any(state.values) for _, state in held)
    counts: dict[str, int] = {}
    for (operation, _, algorithm), calls in recorder.usage().calls.items():
        if operation == "topk_all_reduce":
            where = "gpu" if algorithm == "gpu" else "host"
            counts[where] = counts.get(where, 0) + calls
    each = STEPS * TYPES_WITH_TOPK  # of either model
    assert counts == ({"gpu": each, "host": each} if sys.argv[1] == "gpus" else {"host": 2 * each}), counts
    selections = world.current().group(0)._devices._nodes.selections
    assert selections == counts.get("gpu", 0), f"the GPU selected {selections} times"
    print(f"selected on the GPU: {selections}, counted: {counts}", flush=True)


def joined() -> None:
    """Let the last rank end first: zeros of it take part in the selection of the others."""
    model = Model(gpu)
    if RANK != SIZE - 1:
        model.step({name: gradient(count, dtype) for name, (count, dtype) in SHAPES.items()})
    assert hvd.join() in range(SIZE)
    print("joined", flush=True)


equal_to_the_cpus()
joined()
hvd.shutdown()
print("done")
