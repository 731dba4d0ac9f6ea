"""Training with DistributedOptimizer, against the same training of one process on the batches of all ranks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import collective_core.horovod.torch as hvd
import pytest
import torch

# A schedule made for the optimizer that was wrapped does not see the steps of the wrapping one.
warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
STEPS = 3
Step = Callable[[torch.nn.Module, Any, torch.Tensor, torch.Tensor], None]


class Model(torch.nn.Module):
    """Several types, a parameter without gradient, and one that is used by rank 0 only."""

    def __init__(self, *, sparse: bool = False) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, 6, sparse=sparse, dtype=torch.float64)
        self.first = torch.nn.Linear(6, 8).double()
        self.single = torch.nn.Linear(8, 4)
        self.fixed = torch.nn.Parameter(torch.ones(1), requires_grad=False)
        self.seldom = torch.nn.Parameter(torch.ones(4))
        self.with_seldom = False

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(self.table(rows)))
        result: torch.Tensor = self.single(hidden.float())
        return result * self.seldom if self.with_seldom else result


def data(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randint(0, 10, (4,), generator=generator), torch.randn(4, 4, generator=generator)


def plain(model: torch.nn.Module, optimizer: Any, rows: torch.Tensor, target: torch.Tensor) -> None:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(rows), target).backward()
    optimizer.step()


def clipped(model: torch.nn.Module, optimizer: Any, rows: torch.Tensor, target: torch.Tensor) -> None:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(rows), target).backward()
    if isinstance(optimizer, torch.optim.Optimizer) and hasattr(optimizer, "skip_synchronize"):
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        with optimizer.skip_synchronize():
            optimizer.step()
    else:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()


def in_halves(model: torch.nn.Module, optimizer: Any, rows: torch.Tensor, target: torch.Tensor) -> None:
    optimizer.zero_grad()
    for half, wanted in zip(rows.chunk(2), target.chunk(2), strict=True):
        (torch.nn.functional.mse_loss(model(half), wanted) / 2).backward()
    optimizer.step()


def train(
    step: Step, *, sparse: bool = False, tolerance: float = 1e-5, uses: bool = False, **options: Any
) -> list[int]:
    """Train both ways; returns how many tensors each bucket of the distributed way had."""
    torch.manual_seed(3)
    alone = Model(sparse=sparse)
    reference = torch.optim.SGD(alone.parameters(), lr=0.5, momentum=0.0 if sparse else 0.9)
    torch.manual_seed(30 + RANK)
    model = Model(sparse=sparse)
    base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.0 if sparse else 0.9)
    schedule = torch.optim.lr_scheduler.StepLR(base, step_size=1, gamma=1.0)  # puts its own step into `base`
    for group in base.param_groups:
        group["lr"] = 0.5
    if options.get("groups") == "lists":
        options["groups"] = [[model.first.weight, model.table.weight], [model.single.bias]]
    optimizer = hvd.DistributedOptimizer(base, named_parameters=model.named_parameters(), **options)
    if RANK == 0:
        model.load_state_dict(alone.state_dict())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for number in range(STEPS):
        parts = [data(rank, number) for rank in range(SIZE)]
        model.with_seldom = uses and RANK == 0
        step(model, optimizer, *parts[RANK])
        schedule.step()
        if uses:
            both_ways(alone, reference, parts)
        else:
            step(
                alone,
                reference,
                torch.cat([rows for rows, _ in parts]),
                torch.cat([want for _, want in parts]),
            )
    for (name, mine), wanted in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert torch.allclose(mine, wanted, rtol=tolerance, atol=tolerance), (name, mine, wanted)
    everyone = hvd.allgather_object([parameter.detach() for parameter in model.parameters()])
    for other in everyone[1:]:  # to the last bit
        assert all(torch.equal(one, first) for one, first in zip(other, everyone[0], strict=True))
    return [len(bucket) for bucket in optimizer._reducer._buckets]


def both_ways(
    alone: Model, reference: torch.optim.Optimizer, parts: list[tuple[torch.Tensor, torch.Tensor]]
) -> None:
    """The mean of the ranks' losses, of which only that of rank 0 goes through `seldom`."""
    reference.zero_grad()
    for rank, (rows, target) in enumerate(parts):
        alone.with_seldom = rank == 0
        (torch.nn.functional.mse_loss(alone(rows), target) / SIZE).backward()
    reference.step()


assert train(plain) == [3, 3]  # a bucket per type: first.* and table; single.* and seldom
assert train(plain, groups=2) == [3, 3]
assert train(plain, groups="lists") == [1, 1, 2, 2]
os.environ["CCORE_FUSION_BYTES"] = "0"
assert train(plain) == [1] * 6
del os.environ["CCORE_FUSION_BYTES"]
train(plain, uses=True)
train(clipped)
train(in_halves, backward_passes_per_step=2)
train(plain, gradient_predivide_factor=4.0)
train(plain, compression=hvd.Compression.fp16, tolerance=1e-2)
train(plain, sparse=True)
train(plain, sparse=True, sparse_as_dense=True)


def embeddings(*, sparse_as_dense: bool) -> None:
    """SparseAdam takes sparse gradients only, also of parameters without names."""
    table = torch.nn.Embedding(10, 3, sparse=True)
    unnamed = torch.nn.Linear(3, 1)
    hvd.broadcast_parameters([table.weight], root_rank=0)
    before = table.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SparseAdam([table.weight], lr=0.1), sparse_as_dense=sparse_as_dense
    )
    table(torch.tensor([1, RANK + 2])).sum().backward()
    optimizer.step()
    changed = (table.weight.detach() != before).all(1).nonzero().flatten().tolist()
    assert changed == [1, *range(2, SIZE + 2)], changed
    assert table.weight.grad is not None
    assert table.weight.grad.coalesce().indices().tolist() == [changed]
    groups = [{"params": [unnamed.weight]}, {"params": [unnamed.bias]}]
    names = hvd.DistributedOptimizer(torch.optim.SGD(groups, lr=0.1))._parameter_names
    assert hvd.allgather_object(sorted(names.values())) == [["noname.0", "noname.1"]] * SIZE


embeddings(sparse_as_dense=False)
embeddings(sparse_as_dense=True)


def simple() -> tuple[torch.nn.Linear, Any]:
    model = torch.nn.Linear(2, 1)
    return model, hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters()
    )


model, optimizer = simple()
assert isinstance(optimizer, torch.optim.SGD)
model(torch.ones(1, 2)).sum().backward()
with pytest.raises(AssertionError, match="would race"):
    optimizer.zero_grad()
with pytest.raises(AssertionError, match="more than backward_passes_per_step"):
    model(torch.ones(1, 2)).sum().backward()
optimizer.synchronize()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    optimizer.step()
warning = "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize()"
assert any(str(one.message).startswith(warning) for one in caught)
optimizer.set_backward_passes_per_step(2)
for _ in range(2):
    model(torch.ones(1, 2)).sum().backward()
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
summing = torch.nn.Linear(2, 1)
hvd.broadcast_parameters(summing.state_dict(), root_rank=0)
before = summing.bias.item()
total = hvd.DistributedOptimizer(torch.optim.SGD(summing.parameters(), lr=1.0), op=hvd.Sum)
summing(torch.ones(1, 2)).sum().backward()
total.step()
assert abs(summing.bias.item() - (before - SIZE)) < 1e-5
# Two optimizers, one backward pass; and a schedule that was made for the optimizer which was wrapped, after a load.
two = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
hvd.broadcast_parameters(two.state_dict(), root_rank=0)
bases = [torch.optim.SGD(layer.parameters(), lr=1.0, momentum=0.9) for layer in two]
schedules = [torch.optim.lr_scheduler.StepLR(one, step_size=1, gamma=0.5) for one in bases]
pair = [
    hvd.DistributedOptimizer(one, list(layer.named_parameters(f"layer{place}")))
    for place, (one, layer) in enumerate(zip(bases, two, strict=True))
]
for one in pair:
    hvd.broadcast_optimizer_state(one, root_rank=0)
two(torch.full((1, 2), 1.0 + RANK)).sum().backward()
for one, schedule in zip(pair, schedules, strict=True):
    one.step()
    schedule.step()
rates = hvd.allgather_object([one.param_groups[0]["lr"] for one in pair])
assert rates == [[0.5, 0.5]] * SIZE, rates
assert all(one.state is of.state and len(of.state) == 2 for one, of in zip(pair, bases, strict=True))
wrong = [
    ({"named_parameters": [("weight", model.weight)]}, ValueError, "lacks 1 of the optimizer's 2"),
    ({"named_parameters": [("a", model.weight), ("a", model.bias)]}, ValueError, "must differ: a"),
    ({"named_parameters": list(model.parameters())}, ValueError, "pairs of a name and a parameter"),
    ({"op": hvd.Sum, "gradient_predivide_factor": 2.0}, ValueError, "only with op=Average"),
    ({"op": hvd.Adasum}, NotImplementedError, r"DistributedOptimizer\(op=Adasum\)"),
    ({"backward_passes_per_step": 0}, ValueError, "at least 1"),
    ({"groups": [[model.weight], [model.weight]]}, ValueError, "several groups"),
    ({"groups": [[torch.ones(1)]]}, ValueError, "the optimizer has not"),
    ({"groups": -1}, ValueError, "not negative"),
]
for options, error, text in wrong:
    with pytest.raises(error, match=text):
        hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options)
print("trained")
