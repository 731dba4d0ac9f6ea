"""Every collective of the Horovod API on every type, against what this process computes alone."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator

import collective_core.horovod.torch as hvd
import torch

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
FLOATS8 = (torch.float8_e4m3fn, torch.float8_e5m2)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
SHAPES = ((), (1,), (17,), (5, 3), (0, 4))
checks = itertools.count(1)


def of_rank(rank: int, shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """What a rank gives: small whole numbers, so that every type holds every result exactly."""
    generator = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randint(0, 4, shape, generator=generator).to(dtype)


def all_of(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    return [of_rank(rank, shape, dtype, seed) for rank in range(SIZE)]


def same(got: torch.Tensor, expected: torch.Tensor, what: object, tolerance: float = 0.0) -> None:
    next(checks)
    assert got.dtype == expected.dtype, (what, got.dtype, expected.dtype)
    assert got.shape == expected.shape, (what, got.shape, expected.shape)
    assert torch.allclose(got.double(), expected.double(), rtol=tolerance, atol=0), (what, got, expected)


def reduced(op: int, tensors: list[torch.Tensor]) -> torch.Tensor:
    wide = torch.stack([tensor.to(torch.float64) for tensor in tensors])
    by_op: dict[int, Callable[[], torch.Tensor]] = {
        hvd.Sum: lambda: wide.sum(0),
        hvd.Average: lambda: wide.sum(0) / SIZE,
        hvd.Min: lambda: wide.amin(0),
        hvd.Max: lambda: wide.amax(0),
        hvd.Product: lambda: wide.prod(0),
    }
    result = by_op[op]()
    if not tensors[0].is_floating_point():
        result = result.trunc()
    return result.to(tensors[0].dtype)


def tolerance(dtype: torch.dtype) -> float:
    # 8-bit floats are rounded at every hop.
    of_type = {torch.bfloat16: 1e-2, torch.float16: 1e-3, torch.float8_e4m3fn: 0.2, torch.float8_e5m2: 0.5}
    return of_type.get(dtype, 1e-6)


def reductions() -> Iterator[tuple[torch.dtype, int, tuple[int, ...]]]:
    ops = (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product)
    return itertools.product((*FLOATS, *FLOATS8, *INTEGERS), ops, SHAPES)


def equal(got: torch.Tensor, expected: torch.Tensor) -> None:
    next(checks)
    assert got.dtype == expected.dtype
    assert torch.equal(got, expected), (got, expected)


for dtype, op, shape in reductions():
    what = ("allreduce", dtype, op, shape)
    mine, expected = of_rank(RANK, shape, dtype), reduced(op, all_of(shape, dtype))
    near = tolerance(dtype)
    given = mine.clone()
    same(hvd.allreduce(given, op=op), expected, what, near)
    same(given, mine, what)  # untouched
    handle = hvd.allreduce_async(given, op=op)
    same(hvd.synchronize(handle), expected, what, near)
    same(given, mine, what)
    assert hvd.allreduce_(given, op=op) is given
    same(given, expected, what, near)
    others = of_rank(RANK, (3,), torch.float32, 7)
    several = [mine.clone(), others, mine.clone()]
    first, second, third = hvd.grouped_allreduce(several, op=op)
    same(first, expected, what, near)
    same(second, reduced(op, all_of((3,), torch.float32, 7)), what, 1e-6)
    same(third, expected, what, near)
    same(several[0], mine, what)
    assert hvd.grouped_allreduce_(several, op=op)[0] is several[0]
    same(several[2], expected, what, near)

for dtype, op in itertools.product((*FLOATS, *FLOATS8, *INTEGERS), (hvd.Sum, hvd.Average)):
    for rows in (0, 1, SIZE, 2 * SIZE + 1):
        what = ("reducescatter", dtype, op, rows)
        least, more = divmod(rows, SIZE)
        begin = RANK * least + min(RANK, more)
        whole = reduced(op, all_of((rows, 3), dtype))
        expected = whole[begin : begin + least + (more > RANK)]
        mine = of_rank(RANK, (rows, 3), dtype)
        same(hvd.reducescatter(mine, op=op), expected, what, tolerance(dtype))
        same(mine, of_rank(RANK, (rows, 3), dtype), what)
        for got in hvd.grouped_reducescatter([mine, mine], op=op):
            same(got, expected, what, tolerance(dtype))
        same(hvd.synchronize(hvd.reducescatter_async(mine, op=op)), expected, what, tolerance(dtype))

for dtype in (*FLOATS, *INTEGERS, torch.bool, torch.complex64, torch.int16):
    # Uneven in the first dimension; rank 1 has nothing at all.
    rows = [(rank * 2 + 2) if rank != 1 else 0 for rank in range(SIZE)]
    pieces = [of_rank(rank, (rows[rank], 2), dtype, 3) for rank in range(SIZE)]
    same_kind = torch.cat(pieces)

    equal(hvd.allgather(pieces[RANK]), same_kind)
    equal(hvd.synchronize(hvd.allgather_async(pieces[RANK])), same_kind)
    two = hvd.grouped_allgather([pieces[RANK], torch.tensor([RANK])])
    equal(two[0], same_kind)
    assert two[1].tolist() == list(range(SIZE))
    for root in range(SIZE):
        expected = of_rank(root, (4, 2), dtype, 5)
        mine = of_rank(RANK, (4, 2), dtype, 5)
        equal(hvd.broadcast(mine, root), expected)
        equal(mine, of_rank(RANK, (4, 2), dtype, 5))
        assert hvd.broadcast_(mine, root) is mine
        equal(mine, expected)
        view = of_rank(RANK, (2, 4), dtype, 5).t()  # not contiguous
        hvd.broadcast_(view, root)
        equal(view, of_rank(root, (2, 4), dtype, 5).t())
    # Rank s gives s + r rows to rank r.
    counts = [[giver + taker for taker in range(SIZE)] for giver in range(SIZE)]
    wholes = [of_rank(giver, (sum(counts[giver]), 2), dtype, 9) for giver in range(SIZE)]
    cut = [whole.split(splits) for whole, splits in zip(wholes, counts, strict=True)]
    expected = torch.cat([cut[giver][RANK] for giver in range(SIZE)])
    exchanged, received = hvd.alltoall(wholes[RANK], splits=torch.tensor(counts[RANK]))
    equal(exchanged, expected)
    assert received.tolist() == [counts[giver][RANK] for giver in range(SIZE)]
    even = of_rank(RANK, (SIZE * 2, 2), dtype, 11)
    expected = torch.cat(
        [of_rank(giver, (SIZE * 2, 2), dtype, 11)[RANK * 2 : RANK * 2 + 2] for giver in range(SIZE)]
    )
    equal(hvd.alltoall(even), expected)
    equal(hvd.synchronize(hvd.alltoall_async(even)), expected)

for dtype in (torch.float32, torch.int32):
    mine = of_rank(RANK, (6,), dtype)
    got = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=2.0, postscale_factor=1.5)
    wide = 2 * reduced(hvd.Sum, all_of((6,), dtype)).double()
    same(got, (wide * 1.5).to(dtype), ("scaled", dtype), 1e-6)

small = hvd.allreduce(torch.full((5,), 1.0 + RANK), compression=hvd.Compression.fp16)
same(small, torch.full((5,), 1.0 + (SIZE - 1) / 2), "fp16", 1e-3)
assert hvd.allreduce(torch.ones(2), average=False).tolist() == [SIZE] * 2

sparse = torch.sparse_coo_tensor(
    torch.tensor([[0, RANK + 1], [1, 1]]), torch.tensor([1.0, 2.0]), (SIZE + 1, 2)
)
dense = hvd.sparse_allreduce_async(sparse, name="sparse", op=hvd.Sum)().to_dense()
expected = torch.zeros(SIZE + 1, 2)
expected[0, 1], expected[1:, 1] = SIZE, 2.0
same(dense, expected, "sparse")

hvd.barrier()
print(f"{next(checks) - 1} checks")
hvd.shutdown()
assert not hvd.is_initialized()
sys.exit(0)
