"""A rank that reduces 8-bit floats on the ccore backend, against torch's own conversions.

argv: the device, cpu or cuda; ranks on cuda share device 0, and their results are those of the same call on the host.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import collective_core.torch
import collective_core.torch_backend  # registers ccore
import torch
import torch.distributed as dist

dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
assert size == 2
device = torch.device(sys.argv[1], 0) if sys.argv[1] == "cuda" else torch.device("cpu")
if device.type == "cuda":
    torch.cuda.set_device(device)
Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
OPERATORS: dict[dist.ReduceOp.RedOpType, Combine] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.AVG: lambda one, other: (one + other) / 2,
}
PATTERNS = torch.arange(256, dtype=torch.uint8)
# What the ranks hold: all pairs.
PAIRS = (PATTERNS.repeat_interleave(256), PATTERNS.repeat(256))
checks = itertools.count(1)


def rounded(wide: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Round once. torch before 2.13 turned what is too large for E4M3 into NaN, and now into the largest number."""
    return (wide.clamp(-448, 448) if dtype == torch.float8_e4m3fn else wide).to(dtype)


def same(what: str, got: torch.Tensor, wanted: torch.Tensor, *, signed_zeros: bool = True) -> None:
    """Compare bit by bit, except for the sign of NaN, and of a minimum or maximum of both zeros."""
    next(checks)
    got = got.cpu()
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), (what, got.dtype, got.shape)
    right = (got.view(torch.uint8) == wanted.view(torch.uint8)) | (
        got.float().isnan() & wanted.float().isnan()
    )
    if not signed_zeros:
        right |= (got.float() == 0) & (wanted.float() == 0)
    places = (~right).nonzero().flatten()[:4]
    assert not places.numel(), (rank, what, places, got.float()[places], wanted.float()[places])


def equal_on_all_ranks(what: str, got: torch.Tensor) -> None:
    own = got.cpu().contiguous().view(torch.uint8)
    every = [torch.empty_like(own) for _ in range(size)]
    dist.all_gather(every, own)
    assert torch.equal(every[0], every[1]), (what, "differs between ranks")


def given(count: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """What each rank contributes: all pairs, again and again."""
    repeats = -(-count // 65536)
    return [pattern.repeat(repeats)[:count].view(dtype) for pattern in PAIRS]


def at(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """Put it `offset` bytes behind aligned memory of the device."""
    memory = torch.empty(tensor.numel() + 64, dtype=tensor.dtype, device=device)
    return memory[offset : offset + tensor.numel()].copy_(tensor)


def reductions(dtype: torch.dtype) -> None:
    for op, combine in OPERATORS.items():
        for count, offset in (
            (65536, 0),
            (0, 0),
            (1, 3),
            (7, 1),
            (15, 0),
            (17, 16),
            (1001, 5),
            (300_007, rank),
        ):
            what = f"{dtype} {op} {count} at {offset}"
            inputs = given(count, dtype)
            wanted = rounded(combine(inputs[0].float(), inputs[1].float()), dtype)
            zeros = op not in {dist.ReduceOp.MIN, dist.ReduceOp.MAX}
            tensor = at(inputs[rank], offset)
            dist.all_reduce(tensor, op)
            same(f"all_reduce {what}", tensor, wanted, signed_zeros=zeros)
            equal_on_all_ranks(what, tensor)
            if device.type == "cuda":
                on_host = inputs[rank].clone()
                dist.all_reduce(on_host, op)
                same(f"all_reduce as on the host {what}", tensor, on_host, signed_zeros=zeros)
            tensor = at(inputs[rank], offset)
            dist.reduce(tensor, 1, op)
            same(f"reduce {what}", tensor, wanted if rank == 1 else inputs[0], signed_zeros=zeros)
            half = count // 2
            output = at(torch.zeros(half).to(dtype), offset)
            dist.reduce_scatter_tensor(output, at(inputs[rank][: 2 * half], offset), op)
            block = wanted[rank * half : (rank + 1) * half]
            same(f"reduce_scatter {what}", output, block, signed_zeros=zeros)
    dist.all_reduce(tensor := at(PATTERNS.view(dtype), 0), dist._make_nccl_premul_sum(0.5))
    half_of = rounded(PATTERNS.view(dtype).float() * 0.5, dtype)
    same(f"PREMUL_SUM {dtype}", tensor, rounded(half_of.float() * 2, dtype))


def copies(dtype: torch.dtype) -> None:
    """Bits move as they are, those of NaN too."""
    inputs = [pattern[:1001] for pattern in PAIRS]
    tensor = at(inputs[rank].view(dtype), 1)
    dist.broadcast(tensor, 1)
    assert torch.equal(tensor.cpu().view(torch.uint8), inputs[1]), dtype
    outputs = [at(torch.zeros(1001).to(dtype), 2 * one) for one in range(size)]
    dist.all_gather(outputs, at(inputs[rank].view(dtype), 3))
    for output, wanted in zip(outputs, inputs, strict=True):
        assert torch.equal(output.cpu().view(torch.uint8), wanted), dtype


for one in (torch.float8_e4m3fn, torch.float8_e5m2):
    reductions(one)
    copies(one)
dist.barrier()
if device.type == "cuda":
    print(collective_core.torch.describe()["cuda_path"])
dist.destroy_process_group()
print(f"{next(checks) - 1} checks")
