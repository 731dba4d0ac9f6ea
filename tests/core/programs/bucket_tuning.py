"""A rank that trains while it tunes bucket sizes, by a clock that is a model of the costs. Prints JSON."""

from __future__ import annotations

import json
import sys
import weakref
from typing import Any

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist
from collective_core.bucket_tuning import tuned_ddp

dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8))).double()  # 8 x 33 KB
torch.manual_seed(7)
reference = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8))).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
alone = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
taken: list[float] = []  # by every step
wrappers: list[Any] = []
# Seconds per step by bucket_cap_mb, on each rank; the slower rank counts, so 0.1 is best.
COST: dict[float, tuple[float, float]] = {
    25.0: (3.0, 3.0),
    0.04: (1.0, 5.0),
    0.1: (2.0, 2.0),
    0.2: (2.5, 1.0),
}
fast_default = sys.argv[1] == "default"


def train(module: torch.nn.Module, of: torch.optim.Optimizer, number: int, part: slice) -> None:
    generator = torch.Generator().manual_seed(number)
    data = torch.randn(4 * size, 64, dtype=torch.float64, generator=generator)[part]
    of.zero_grad()
    module(data).square().mean().backward()
    of.step()


def step(ddp: Any) -> None:
    if not wrappers or wrappers[-1]() is not ddp:
        assert all(wrapper() is None for wrapper in wrappers), "an old wrapper is alive, with its hooks"
        wrappers.append(weakref.ref(ddp))
    cap = round(ddp.bucket_bytes_cap / (1 << 20), 2)
    warming_up = 100.0 if len(taken) % 5 < 2 else 0.0  # which must not be measured
    train(ddp, optimizer, len(taken), slice(4 * rank, 4 * rank + 4))
    train(reference, alone, len(taken), slice(None))
    taken.append(1.0 if fast_default and cap == 25.0 else COST[cap][rank] + warming_up)


tuned = tuned_ddp(
    model, step, candidates=(None, 0.04, 0.1, 0.2), warmup=2, samples=3, clock=lambda: sum(taken)
)
measured = len(taken)
step(tuned.ddp)
same = all(
    torch.allclose(a, b, rtol=1e-9) for a, b in zip(model.parameters(), reference.parameters(), strict=True)
)
print(
    json.dumps(
        {"best": tuned.bucket_cap_mb, "times": list(tuned.step_s.values()), "steps": measured, "same": same}
    )
)
dist.destroy_process_group()
