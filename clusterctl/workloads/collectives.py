"""Define the collectives of nccl-tests over torch.distributed: buffers, call, known inputs and results, bandwidth.

Sizes and bus bandwidth are defined as in nccl-tests (its doc/PERFORMANCE.md): the size is that of the larger buffer,
the count is the number of elements that one rank sends to another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from clusterctl.workloads.exchange import exchange

ROOT = 0
# Ranks send whole numbers below this.
_PATTERN = 3
# A sum over all ranks is at most this: bfloat16 holds all whole numbers up to 256.
_LARGEST_SUM = 192
# So many ranks send ones and twos for a product, all others ones: int8 holds 2 to the power of 6.
_FACTORS = 6
OPERATORS: dict[str, tuple[Any, Callable[..., Tensor]]] = {
    "sum": (dist.ReduceOp.SUM, torch.add),
    "prod": (dist.ReduceOp.PRODUCT, torch.mul),
    "max": (dist.ReduceOp.MAX, torch.maximum),
    "min": (dist.ReduceOp.MIN, torch.minimum),
}
"""Each operator's name in nccl-tests, torch's operator of collectives, and the same for two tensors."""


@dataclass(frozen=True)
class Buffers:
    """Hold one rank's send and receive buffers, ``count`` elements per part, and the name of the operator.

    In place, both buffers are the same tensor.
    """

    send: Tensor
    recv: Tensor
    count: int
    rank: int
    size: int
    op: str = "sum"

    @property
    def operator(self) -> Any:
        """Return torch's operator."""
        return OPERATORS[self.op][0]

    def part(self, tensor: Tensor, index: int) -> Tensor:
        """Return one rank's part of a tensor."""
        return tensor[index * self.count : (index + 1) * self.count]

    def parts(self, tensor: Tensor) -> list[Tensor]:
        """Return the parts of all ranks."""
        return [self.part(tensor, index) for index in range(self.size)]


@dataclass(frozen=True)
class Collective:
    """Define one collective. ``sends`` and ``receives``: whether the buffer has a part for every rank.

    ``of(rank, part)`` below is the value of a part that a rank sends.
    """

    name: str
    call: Callable[[Buffers], Any]
    expected: Callable[[Buffers, Callable[[int, int], Tensor]], Tensor | None]
    """Returns the expected ``recv``, given ``of(rank, part)``; None: undefined on this rank."""
    bus_factor: Callable[[int], float]
    sends: bool = False
    receives: bool = False
    in_place: bool = False
    reduces: bool = False
    rooted: bool = False

    @property
    def split(self) -> bool:
        """Tell whether the size is the sum of the parts for all ranks."""
        return self.sends or self.receives


def make(
    chosen: Collective, count: int, dtype: torch.dtype, device: torch.device, op: str = "sum"
) -> Buffers:
    """Return zeroed buffers of this rank for parts of ``count`` elements."""
    rank, size = dist.get_rank(), dist.get_world_size()
    send = torch.zeros(count * (size if chosen.sends else 1), dtype=dtype, device=device)
    if chosen.in_place:
        return Buffers(send, send, count, rank, size, op)
    recv = torch.zeros(count * (size if chosen.receives else 1), dtype=dtype, device=device)
    return Buffers(send, recv, count, rank, size, op)


def values(chosen: Collective, buffers: Buffers) -> Callable[[int, int], Tensor]:
    """Return the values of each rank and part (``of(rank, part)``), chosen so that results are exact in every type."""
    # With many ranks only some send a nonzero value at a position, and positions alternate between ranks.
    period = max(_PATTERN, -(-_PATTERN * buffers.size // _LARGEST_SUM)) if chosen.reduces else _PATTERN
    # Two bytes per element and one rank at a time: checking 8 GiB must fit on the GPU beside the buffers.
    turn = torch.arange(period, dtype=torch.int16, device=buffers.send.device)
    pattern = turn.repeat(-(-buffers.count // period))[: buffers.count]

    def of(rank: int, part: int) -> Tensor:
        if chosen.reduces and buffers.op == "prod":
            return 1 + (pattern + rank + part) % 2 if rank < _FACTORS else torch.ones_like(pattern)
        found = (pattern + (rank + part) % period) % period
        return found if period == _PATTERN else found.mul_(found < _PATTERN)

    return of


def count_wrong(chosen: Collective, buffers: Buffers) -> int:
    """Fill the buffers, call once, and return how many elements are wrong on all ranks together."""
    send = buffers.send
    parts = buffers.size if chosen.sends else 1
    of = values(chosen, buffers)
    if not chosen.in_place:
        buffers.recv.fill_(-1 if buffers.recv.dtype.is_signed else 99)
    send.copy_(torch.cat([of(buffers.rank, part) for part in range(parts)]).to(send.dtype))
    chosen.call(buffers)
    expected = chosen.expected(buffers, of)
    wrong = torch.zeros(1, dtype=torch.int64, device=send.device)
    if expected is not None:
        wrong += (buffers.recv != expected.to(buffers.recv.dtype)).sum()
    dist.all_reduce(wrong)
    return int(wrong.item())


def _first_of(*names: str) -> Any:
    """Return the first of these functions that torch has; the older names warn since 2.13."""
    return next(getattr(dist, name) for name in names if hasattr(dist, name))


_all_gather = _first_of("all_gather_single", "all_gather_into_tensor")
_reduce_scatter = _first_of("reduce_scatter_single", "reduce_scatter_tensor")


def _others(size: int) -> float:
    return (size - 1) / size


def _reduced(buffers: Buffers, of: Callable[[int, int], Tensor], part: int = 0) -> Tensor:
    combine = OPERATORS[buffers.op][1]
    total = of(0, part)
    for rank in range(1, buffers.size):
        combine(total, of(rank, part), out=total)
    return total


def _gathered(buffers: Buffers, of: Callable[[int, int], Tensor], part: int = 0) -> Tensor:
    return torch.cat([of(rank, part) for rank in range(buffers.size)])


def _on_root(buffers: Buffers, value: Tensor) -> Tensor | None:
    return value if buffers.rank == ROOT else None


def _sendrecv(buffers: Buffers) -> None:
    following, before = (buffers.rank + 1) % buffers.size, (buffers.rank - 1) % buffers.size
    if buffers.size == 1:
        buffers.recv.copy_(buffers.send)
        return
    exchange((buffers.send, buffers.recv), to=following, source=before)


def _hypercube(buffers: Buffers) -> None:
    """All-gather along the edges of a hypercube: a rank's data doubles with every neighbour."""
    buffers.part(buffers.recv, buffers.rank).copy_(buffers.send)
    held = 1
    while held < buffers.size:
        peer = buffers.rank ^ held
        mine, theirs = (
            buffers.recv[first * buffers.count : (first + held) * buffers.count]
            for first in (buffers.rank // held * held, peer // held * held)
        )
        exchange((mine, theirs), to=peer, source=peer)
        held *= 2


def _gather(buffers: Buffers) -> None:
    dist.gather(buffers.send, buffers.parts(buffers.recv) if buffers.rank == ROOT else None, dst=ROOT)


def _scatter(buffers: Buffers) -> None:
    dist.scatter(buffers.recv, buffers.parts(buffers.send) if buffers.rank == ROOT else None, src=ROOT)


ALL = {
    chosen.name: chosen
    for chosen in (
        Collective(
            "all_reduce", lambda b: dist.all_reduce(b.recv, op=b.operator), _reduced, lambda n: 2 * _others(n),
            in_place=True, reduces=True,
        ),
        Collective(
            "all_gather", lambda b: _all_gather(b.recv, b.send), _gathered, _others,
            receives=True,
        ),
        Collective(
            "reduce_scatter", lambda b: _reduce_scatter(b.recv, b.send, op=b.operator),
            lambda b, of: _reduced(b, of, b.rank), _others, sends=True, reduces=True,
        ),
        Collective(
            "broadcast", lambda b: dist.broadcast(b.recv, ROOT), lambda b, of: of(ROOT, 0), lambda n: 1.0,
            in_place=True, rooted=True,
        ),
        Collective(
            "reduce", lambda b: dist.reduce(b.recv, ROOT, op=b.operator), lambda b, of: _on_root(b, _reduced(b, of)),
            lambda n: 1.0, in_place=True, reduces=True, rooted=True,
        ),
        Collective(
            "alltoall", lambda b: dist.all_to_all_single(b.recv, b.send),
            lambda b, of: _gathered(b, of, b.rank), _others, sends=True, receives=True,
        ),
        Collective(
            "gather", _gather, lambda b, of: _on_root(b, _gathered(b, of)), _others, receives=True, rooted=True
        ),
        Collective("scatter", _scatter, lambda b, of: of(ROOT, b.rank), _others, sends=True, rooted=True),
        Collective("hypercube", _hypercube, _gathered, _others, receives=True),
        Collective("sendrecv", _sendrecv, lambda b, of: of((b.rank - 1) % b.size, 0), lambda n: 1.0),
    )
}  # fmt: skip
