"""Reductions that the library has no arithmetic for: torch's own, between an exchange and a gather of blocks.

Each rank combines one block of the tensors of all ranks, in the order of the ranks, so that all ranks end with the
same bits. The bytes on the wire are those of a ring: 2 (p - 1) / p of the tensor for an all_reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import torch
import torch.distributed as dist

from collective_core.torch.tensors import count_of_one, for_copy, op_code
from collective_core.torch.ways import Way

Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_PRODUCT = op_code(dist.ReduceOp.PRODUCT)
_BITWISE: dict[int, Combine] = {
    op_code(dist.ReduceOp.BAND): torch.bitwise_and,
    op_code(dist.ReduceOp.BOR): torch.bitwise_or,
    op_code(dist.ReduceOp.BXOR): torch.bitwise_xor,
}
_ARITHMETIC: dict[int, Combine] = {
    op_code(dist.ReduceOp.SUM): torch.add,
    _PRODUCT: torch.mul,
    op_code(dist.ReduceOp.MIN): torch.minimum,
    op_code(dist.ReduceOp.MAX): torch.maximum,
}
# torch itself has few operators on these; bits have no sign.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def combiner(dtype: torch.dtype, op: object) -> Combine | None:
    """Return torch's operator if the library has none for this type but torch has, else None."""
    code = op_code(op)
    if code in _BITWISE and not (dtype.is_floating_point or dtype.is_complex):
        return _bits(dtype, _BITWISE[code])
    if dtype == torch.int16:
        return _ARITHMETIC.get(code)
    if dtype.is_complex and code == _PRODUCT:
        return torch.mul
    return None


def _bits(dtype: torch.dtype, combine: Combine) -> Combine:
    signed = _SIGNED.get(dtype)
    if signed is None:
        return combine
    return lambda one, other: combine(one.view(signed), other.view(signed)).view(dtype)


def combined_block(way: Way, source: torch.Tensor, counts: Sequence[int], combine: Combine) -> torch.Tensor:
    """Return this rank's block, of `counts[rank]` elements, of the combination of all ranks' `source`."""
    own, unit = counts[way.rank], count_of_one(source)
    received = source.new_empty(way.size * own)
    way.all_to_all(
        for_copy(source), for_copy(received), [unit * count for count in counts], [unit * own] * way.size
    )
    return reduce(combine, received.view(way.size, own).unbind())


def combined(way: Way, source: torch.Tensor, combine: Combine) -> torch.Tensor:
    """Return the combination of all ranks' `source`, on every rank."""
    share, rest = divmod(source.numel(), way.size)
    counts = [share + (rank < rest) for rank in range(way.size)]
    block = combined_block(way, source, counts, combine)
    result, unit = torch.empty_like(source), count_of_one(source)
    way.all_gatherv(for_copy(block), for_copy(result), [unit * count for count in counts])
    return result
