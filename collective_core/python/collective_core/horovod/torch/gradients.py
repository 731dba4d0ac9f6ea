"""The collectives as differentiable functions: each backward pass is a collective too, called by all ranks.

The gradients are Horovod's. Those of allreduce and alltoall are exact for the sum of all ranks' losses; those of
allgather and broadcast are divided by the number of ranks, and those of reducescatter are multiplied by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from collective_core.horovod.common.process_sets import ProcessSet
from collective_core.horovod.reduce_ops import Average, Sum
from collective_core.horovod.requests import Kind
from collective_core.horovod.torch.calls import submit, synchronize

Tensors = tuple[torch.Tensor, ...]
# Any: torch's stubs do not type autograd.Function's contexts.
_Function: Any = torch.autograd.Function


def split_counts(
    tensor: torch.Tensor, splits: torch.Tensor | Sequence[int] | None, process_set: ProcessSet
) -> list[int]:
    """Return how many rows each rank gets: an even share without splits. Raises ValueError if that cannot be."""
    if tensor.dim() == 0:
        raise ValueError("alltoall works along the first dimension, and a tensor of no dimensions has none")
    size, rows = process_set.size(), tensor.shape[0]
    if splits is None:
        if rows % size != 0:
            raise ValueError(f"{rows} rows cannot be shared out evenly to {size} ranks: give splits")
        return [rows // size] * size
    counts = [int(count) for count in splits]
    if len(counts) != size or min(counts) < 0 or sum(counts) != rows:
        raise ValueError(f"splits must be {size} counts, none negative, that add up to {rows}: {counts}")
    return counts


def _linear(reduction: dict[str, Any]) -> dict[str, Any]:
    if reduction["op"] not in {Average, Sum}:
        raise NotImplementedError(f"no gradient of a reduction by {reduction['op'].name}")
    return reduction


def _own_rows(gradients: Sequence[torch.Tensor], rows: list[int], process_set: ProcessSet) -> Tensors:
    """Return this rank's rows of the average of all ranks' gradients of concatenations."""
    call = submit(Kind.ALLREDUCE, gradients, process_set, None, one=False, op=Average)
    counts = submit(Kind.ALLGATHER, [torch.tensor([rows], device="cpu")], process_set, None)
    averaged = synchronize(call)
    begins = synchronize(counts)[: process_set.rank()].sum(0).tolist()
    return tuple(one[at : at + own] for one, at, own in zip(averaged, begins, rows, strict=True))


def _gathered(
    gradients: Sequence[torch.Tensor], reduction: dict[str, Any], process_set: ProcessSet
) -> Tensors:
    """Return the concatenations of all ranks' gradients, for a sum times the number of ranks, as Horovod does."""
    factor = reduction["prescale"] * reduction["postscale"]
    if reduction["op"] is Sum:
        factor *= process_set.size()
    whole = synchronize(submit(Kind.ALLGATHER, gradients, process_set, None, one=False))
    return tuple(one * factor for one in whole)


class Allreduce(_Function):  # type: ignore[misc]  # see above
    """Of one tensor."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, name: str | None, reduction: dict[str, Any], process_set: ProcessSet
    ) -> Any:
        """Reduce."""
        ctx.rest = (reduction, process_set)
        return synchronize(submit(Kind.ALLREDUCE, [tensor], process_set, name, **reduction))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Reduce the gradients in the same way."""
        reduction, process_set = ctx.rest
        call = submit(Kind.ALLREDUCE, [gradient], process_set, None, **_linear(reduction))
        return synchronize(call), None, None, None


class GroupedAllreduce(_Function):  # type: ignore[misc]  # see above
    """Of several tensors."""

    @staticmethod
    def forward(
        ctx: Any, name: str | None, reduction: dict[str, Any], process_set: ProcessSet, *tensors: torch.Tensor
    ) -> Any:
        """Reduce."""
        ctx.rest = (reduction, process_set)
        return tuple(synchronize(submit(Kind.ALLREDUCE, tensors, process_set, name, one=False, **reduction)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Reduce the gradients in the same way."""
        reduction, process_set = ctx.rest
        call = submit(Kind.ALLREDUCE, gradients, process_set, None, one=False, **_linear(reduction))
        return None, None, None, *synchronize(call)


class Allgather(_Function):  # type: ignore[misc]  # see above
    """Of one tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str | None, process_set: ProcessSet) -> Any:
        """Concatenate."""
        ctx.rest = (tensor.shape[0], process_set)
        return synchronize(submit(Kind.ALLGATHER, [tensor], process_set, name))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Average the gradients and take this rank's rows."""
        rows, process_set = ctx.rest
        return *_own_rows([gradient], [rows], process_set), None, None


class GroupedAllgather(_Function):  # type: ignore[misc]  # see above
    """Of several tensors."""

    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, *tensors: torch.Tensor) -> Any:
        """Concatenate."""
        ctx.rows, ctx.process_set = [tensor.shape[0] for tensor in tensors], process_set
        return tuple(synchronize(submit(Kind.ALLGATHER, tensors, process_set, name, one=False)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Average the gradients and take this rank's rows."""
        return None, None, *_own_rows(gradients, ctx.rows, ctx.process_set)


class Broadcast(_Function):  # type: ignore[misc]  # see above
    """Of one tensor; the root is a place in the process set."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root: int, name: str | None, process_set: ProcessSet) -> Any:
        """Copy."""
        ctx.rest = (root, process_set)
        return synchronize(submit(Kind.BROADCAST, [tensor], process_set, name, root=root))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Average the gradients at the root; the other ranks' tensors had no part in the result."""
        root, process_set = ctx.rest
        averaged = synchronize(submit(Kind.ALLREDUCE, [gradient], process_set, None, op=Average))
        return averaged if process_set.rank() == root else torch.zeros_like(averaged), None, None, None


class Alltoall(_Function):  # type: ignore[misc]  # see above
    """Of one tensor."""

    @staticmethod
    def forward(
        ctx: Any,
        tensor: torch.Tensor,
        splits: torch.Tensor | Sequence[int] | None,
        name: str | None,
        process_set: ProcessSet,
    ) -> Any:
        """Exchange."""
        counts = split_counts(tensor, splits, process_set)
        call = submit(Kind.ALLTOALL, [tensor], process_set, name, splits=counts)
        exchanged, received = synchronize(call)
        ctx.rest = (received, process_set)
        ctx.mark_non_differentiable(received)
        return exchanged, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Any:
        """Send the gradients back to where the rows came from."""
        received, process_set = ctx.rest
        call = submit(Kind.ALLTOALL, [gradient], process_set, None, splits=received.tolist())
        return synchronize(call)[0], None, None, None


class Reducescatter(_Function):  # type: ignore[misc]  # see above
    """Of one tensor."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, name: str | None, reduction: dict[str, Any], process_set: ProcessSet
    ) -> Any:
        """Reduce and keep the own rows."""
        ctx.rest = (_linear(reduction) if tensor.requires_grad else reduction, process_set)
        return synchronize(submit(Kind.REDUCESCATTER, [tensor], process_set, name, **reduction))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Concatenate the gradients, since each row went to one rank."""
        return *_gathered([gradient], *ctx.rest), None, None, None


class GroupedReducescatter(_Function):  # type: ignore[misc]  # see above
    """Of several tensors."""

    @staticmethod
    def forward(
        ctx: Any, name: str | None, reduction: dict[str, Any], process_set: ProcessSet, *tensors: torch.Tensor
    ) -> Any:
        """Reduce and keep the own rows."""
        differentiable = any(tensor.requires_grad for tensor in tensors)
        ctx.rest = (_linear(reduction) if differentiable else reduction, process_set)
        call = submit(Kind.REDUCESCATTER, tensors, process_set, name, one=False, **reduction)
        return tuple(synchronize(call))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Concatenate the gradients, since each row went to one rank."""
        return None, None, None, *_gathered(gradients, *ctx.rest)
