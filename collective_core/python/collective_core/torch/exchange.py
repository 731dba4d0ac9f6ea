"""Reductions that the library has no arithmetic for: torch's own, between an exchange and a gather of blocks.

Each rank combines one block of the tensors of all ranks, in the order of the ranks, so that all ranks end with the
same bits. The bytes on the wire are those of a ring: 2 (p - 1) / p of the tensor for an all_reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import torch
import torch.distributed as dist

from collective_core.communicator import Communicator
from collective_core.torch.tensors import count_of_one, for_copy

Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_BITWISE: dict[object, Combine] = {
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}
_ARITHMETIC: dict[object, Combine] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
}
# torch itself has few operators on these; bits have no sign.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def combiner(dtype: torch.dtype, op: object) -> Combine | None:
    """Return torch's operator if the library has none for this type but torch has, else None."""
    for ours, combine in _BITWISE.items():
        # Operators of torch compare by value but are not all hashable in the same way in every release.
        if op == ours and not (dtype.is_floating_point or dtype.is_complex):
            return _bits(dtype, combine)
    if dtype == torch.int16:
        return next((combine for ours, combine in _ARITHMETIC.items() if op == ours), None)
    if dtype.is_complex and op == dist.ReduceOp.PRODUCT:
        return torch.mul
    return None


def _bits(dtype: torch.dtype, combine: Combine) -> Combine:
    signed = _SIGNED.get(dtype)
    if signed is None:
        return combine
    return lambda one, other: combine(one.view(signed), other.view(signed)).view(dtype)


def combined_block(
    communicator: Communicator,
    source: torch.Tensor,
    counts: Sequence[int],
    combine: Combine,
    limit: float | None,
) -> torch.Tensor:
    """Return this rank's block, of `counts[rank]` elements, of the combination of all ranks' `source`."""
    own, unit = counts[communicator.rank], count_of_one(source)
    received = source.new_empty(communicator.size * own)
    communicator.all_to_all(
        for_copy(source),
        for_copy(received),
        [unit * count for count in counts],
        [unit * own] * communicator.size,
        limit,
    )
    return reduce(combine, received.view(communicator.size, own).unbind())


def combined(
    communicator: Communicator, source: torch.Tensor, combine: Combine, limit: float | None
) -> torch.Tensor:
    """Return the combination of all ranks' `source`, on every rank."""
    share, rest = divmod(source.numel(), communicator.size)
    counts = [share + (rank < rest) for rank in range(communicator.size)]
    block = combined_block(communicator, source, counts, combine, limit)
    result, unit = torch.empty_like(source), count_of_one(source)
    communicator.all_gatherv(for_copy(block), for_copy(result), [unit * count for count in counts], limit)
    return result
