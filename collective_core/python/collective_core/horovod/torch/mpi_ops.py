"""The collectives of Horovod on torch tensors: blocking, asynchronous, in place, differentiable.

Calls are matched by name between ranks, so ranks may order their asynchronous calls differently; calls without a
name get one by their order. See docs/horovod.md.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from collective_core.horovod import world
from collective_core.horovod.common.process_sets import ProcessSet, global_process_set
from collective_core.horovod.reduce_ops import Average, Sum, chosen
from collective_core.horovod.requests import Kind
from collective_core.horovod.torch import gradients
from collective_core.horovod.torch.calls import poll, submit, synchronize
from collective_core.horovod.torch.compression import Compression, Compressor

__all__ = [
    "allgather", "allgather_async", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "alltoall",
    "alltoall_async", "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_",
    "grouped_allgather", "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_",
    "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_reducescatter", "grouped_reducescatter_async",
    "join", "poll", "reducescatter", "reducescatter_async", "sparse_allreduce_async", "synchronize",
]  # fmt: skip

Tensors = Sequence[torch.Tensor]


def _reduction(op: int | None, average: bool | None, prescale: float, postscale: float) -> dict[str, Any]:
    return {"op": chosen(op, average), "prescale": float(prescale), "postscale": float(postscale)}


def _with_rows(tensors: Tensors, call: str) -> Tensors:
    if any(tensor.dim() == 0 for tensor in tensors):
        raise ValueError(f"{call} works along the first dimension, and a tensor of no dimensions has none")
    return tensors


def _at_least_one(tensors: Tensors, call: str) -> Tensors:
    if not tensors:
        raise ValueError(f"{call} needs at least one tensor")
    return tensors


def allreduce_async(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: int | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> int:  # fmt: skip
    """Start to reduce a tensor over all ranks into a new one; return a handle."""
    reduction = _reduction(op, average, prescale_factor, postscale_factor)
    return submit(Kind.ALLREDUCE, [tensor], process_set, name, **reduction)


def allreduce(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
    compression: type[Compressor] = Compression.none, op: int | None = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> torch.Tensor:  # fmt: skip
    """Reduce a tensor over all ranks into a new one. Differentiable."""
    small, ctx = compression.compress(tensor)
    reduction = _reduction(op, average, prescale_factor, postscale_factor)
    return compression.decompress(gradients.Allreduce.apply(small, name, reduction, process_set), ctx)


def allreduce_async_(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: int | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> int:  # fmt: skip
    """Start to reduce a tensor over all ranks, in place; return a handle."""
    reduction = _reduction(op, average, prescale_factor, postscale_factor)
    return submit(Kind.ALLREDUCE, [tensor], process_set, name, outputs=[tensor], **reduction)


def allreduce_(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: int | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> torch.Tensor:  # fmt: skip
    """Reduce a tensor over all ranks, in place."""
    reduced: torch.Tensor = synchronize(
        allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set)
    )
    return reduced


def grouped_allreduce_async(
    tensors: Tensors, average: bool | None = None, name: str | None = None, op: int | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> int:  # fmt: skip
    """Start to reduce several tensors as one, into new ones; return a handle."""
    _at_least_one(tensors, "grouped_allreduce")
    reduction = _reduction(op, average, prescale_factor, postscale_factor)
    return submit(Kind.ALLREDUCE, tensors, process_set, name, one=False, **reduction)


def grouped_allreduce(
    tensors: Tensors, average: bool | None = None, name: str | None = None,
    compression: type[Compressor] = Compression.none, op: int | None = None, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:  # fmt: skip
    """Reduce several tensors as one, into new ones. Differentiable."""
    _at_least_one(tensors, "grouped_allreduce")
    small = [compression.compress(tensor) for tensor in tensors]
    reduction = _reduction(op, average, prescale_factor, postscale_factor)
    reduced = gradients.GroupedAllreduce.apply(name, reduction, process_set, *(tensor for tensor, _ in small))
    return [compression.decompress(one, ctx) for one, (_, ctx) in zip(reduced, small, strict=True)]


def grouped_allreduce_async_(
    tensors: Tensors, average: bool | None = None, name: str | None = None, op: int | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> int:  # fmt: skip
    """Start to reduce several tensors as one, in place; return a handle."""
    _at_least_one(tensors, "grouped_allreduce")
    reduction = _reduction(op, average, prescale_factor, postscale_factor)
    return submit(Kind.ALLREDUCE, tensors, process_set, name, outputs=list(tensors), one=False, **reduction)


def grouped_allreduce_(
    tensors: Tensors, average: bool | None = None, name: str | None = None, op: int | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:  # fmt: skip
    """Reduce several tensors as one, in place."""
    reduced: list[torch.Tensor] = synchronize(
        grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
    )
    return reduced


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str | None = None, op: int | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], torch.Tensor]:  # fmt: skip
    """Start to add or average sparse tensors, by gathering what they hold; return a function that waits for the result.

    There is no handle: as with Horovod, the function is called instead of `synchronize`, once.
    """
    reduction = chosen(op, None)
    if reduction not in {Average, Sum}:
        raise ValueError(f"sparse tensors can be averaged and summed, not reduced by {reduction.name}")
    if not tensor.is_sparse:
        raise ValueError(f"expected a sparse tensor, got a {tensor.layout} one: use allreduce_async")
    coalesced = tensor.detach().coalesce()
    # Rows of the index matrix are dimensions; what is gathered is its columns.
    parts = [coalesced.indices().t().contiguous(), coalesced.values()]
    handle = submit(Kind.ALLGATHER, parts, process_set, name, one=False)

    def wait() -> torch.Tensor:
        where, what = synchronize(handle)
        if reduction is Average:
            what = what / process_set.size()
        return torch.sparse_coo_tensor(
            where.t(), what, tensor.shape, device=what.device, check_invariants=False
        ).coalesce()

    return wait


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to concatenate the tensors of all ranks along the first dimension; return a handle."""
    return submit(Kind.ALLGATHER, _with_rows([tensor], "allgather"), process_set, name)


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Concatenate the tensors of all ranks along the first dimension, which may differ. Differentiable."""
    _with_rows([tensor], "allgather")
    gathered: torch.Tensor = gradients.Allgather.apply(tensor, name, process_set)
    return gathered


def grouped_allgather_async(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to concatenate each of several tensors with those of all ranks; return a handle."""
    _at_least_one(_with_rows(tensors, "grouped_allgather"), "grouped_allgather")
    return submit(Kind.ALLGATHER, tensors, process_set, name, one=False)


def grouped_allgather(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """Concatenate each of several tensors with those of all ranks. Differentiable."""
    _at_least_one(_with_rows(tensors, "grouped_allgather"), "grouped_allgather")
    return list(gradients.GroupedAllgather.apply(name, process_set, *tensors))


def _root(root_rank: int, process_set: ProcessSet) -> int:
    ranks = process_set.ranks or []
    if root_rank not in ranks:
        raise ValueError(f"root_rank {root_rank} is not in {process_set}")
    return ranks.index(root_rank)


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:  # fmt: skip
    """Start to copy the root's tensor into a new one on all ranks; return a handle. The root is a global rank."""
    return submit(Kind.BROADCAST, [tensor], process_set, name, root=_root(root_rank, process_set))


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:  # fmt: skip
    """Copy the root's tensor into a new one on all ranks. Differentiable."""
    copied: torch.Tensor = gradients.Broadcast.apply(tensor, _root(root_rank, process_set), name, process_set)
    return copied


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:  # fmt: skip
    """Start to copy the root's tensor into those of all ranks; return a handle."""
    return submit(
        Kind.BROADCAST, [tensor], process_set, name, outputs=[tensor], root=_root(root_rank, process_set)
    )


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:  # fmt: skip
    """Copy the root's tensor into those of all ranks."""
    copied: torch.Tensor = synchronize(broadcast_async_(tensor, root_rank, name, process_set))
    return copied


def alltoall_async(
    tensor: torch.Tensor, splits: torch.Tensor | Sequence[int] | None = None, name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:  # fmt: skip
    """Start to give each rank its part of the rows; return a handle, of two tensors if splits are given."""
    counts = gradients.split_counts(tensor, splits, process_set)
    finish = operator.itemgetter(0) if splits is None else None
    return submit(Kind.ALLTOALL, [tensor], process_set, name, splits=counts, finish=finish)


def alltoall(
    tensor: torch.Tensor, splits: torch.Tensor | Sequence[int] | None = None, name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Give rank r the rows of split r, and take those that are for this rank. Differentiable.

    With splits, the second result is how many rows came from each rank.
    """
    exchanged, received = gradients.Alltoall.apply(tensor, splits, name, process_set)
    return exchanged if splits is None else (exchanged, received)


def reducescatter_async(
    tensor: torch.Tensor, name: str | None = None, op: int = Average,
    process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> int:  # fmt: skip
    """Start to reduce a tensor over all ranks, of which each keeps its rows; return a handle."""
    reduction = _reduction(op, None, prescale_factor, postscale_factor)
    return submit(Kind.REDUCESCATTER, _with_rows([tensor], "reducescatter"), process_set, name, **reduction)


def reducescatter(
    tensor: torch.Tensor, name: str | None = None, compression: type[Compressor] = Compression.none,
    op: int = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:  # fmt: skip
    """Reduce a tensor over all ranks; each keeps its rows, the first ones a row more. Differentiable."""
    small, ctx = compression.compress(_with_rows([tensor], "reducescatter")[0])
    reduction = _reduction(op, None, prescale_factor, postscale_factor)
    return compression.decompress(gradients.Reducescatter.apply(small, name, reduction, process_set), ctx)


def grouped_reducescatter_async(
    tensors: Tensors, name: str | None = None, op: int = Average,
    process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> int:  # fmt: skip
    """Start reducescatter of several tensors; return a handle."""
    _at_least_one(_with_rows(tensors, "grouped_reducescatter"), "grouped_reducescatter")
    reduction = _reduction(op, None, prescale_factor, postscale_factor)
    return submit(Kind.REDUCESCATTER, tensors, process_set, name, one=False, **reduction)


def grouped_reducescatter(
    tensors: Tensors, name: str | None = None, compression: type[Compressor] = Compression.none,
    op: int = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:  # fmt: skip
    """Run reducescatter of several tensors. Differentiable."""
    _at_least_one(_with_rows(tensors, "grouped_reducescatter"), "grouped_reducescatter")
    small = [compression.compress(tensor) for tensor in tensors]
    reduction = _reduction(op, None, prescale_factor, postscale_factor)
    kept = gradients.GroupedReducescatter.apply(
        name, reduction, process_set, *(tensor for tensor, _ in small)
    )
    return [compression.decompress(one, ctx) for one, (_, ctx) in zip(kept, small, strict=True)]


def join(device: int = -1) -> int:
    """Say that this rank has no data left; returns, when no rank has, the one that had data longest.

    Until then this rank takes part in the allreduces of the others with zeros. `device` is not used.
    """
    return world.current().join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return when all ranks have called it."""
    synchronize(submit(Kind.BARRIER, [], process_set, None))
