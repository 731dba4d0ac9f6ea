"""The collectives as differentiable functions: each backward pass is a collective too, called by all ranks."""

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
        raise NotImplementedError(f"there is no gradient of a reduction by {reduction['op'].name}")
    return reduction


def _own_rows(gradient: torch.Tensor, rows: int, process_set: ProcessSet) -> torch.Tensor:
    """Return this rank's part of the sum of all ranks' gradients of a concatenation."""
    summed = synchronize(submit(Kind.ALLREDUCE, [gradient], process_set, None, op=Sum))
    counts = synchronize(submit(Kind.ALLGATHER, [torch.tensor([rows], device="cpu")], process_set, None))
    begin = int(counts[: process_set.rank()].sum())
    part: torch.Tensor = summed[begin : begin + rows]
    return part


def _gathered(gradient: torch.Tensor, reduction: dict[str, Any], process_set: ProcessSet) -> torch.Tensor:
    whole = synchronize(submit(Kind.ALLGATHER, [gradient], process_set, None))
    factor = reduction["prescale"] * reduction["postscale"]
    scaled: torch.Tensor = whole * (factor / process_set.size() if reduction["op"] is Average else factor)
    return scaled


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
        """Add the gradients and take this rank's part."""
        return _own_rows(gradient, *ctx.rest), None, None


class GroupedAllgather(_Function):  # type: ignore[misc]  # see above
    """Of several tensors."""

    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, *tensors: torch.Tensor) -> Any:
        """Concatenate."""
        ctx.rows, ctx.process_set = [tensor.shape[0] for tensor in tensors], process_set
        return tuple(synchronize(submit(Kind.ALLGATHER, tensors, process_set, name, one=False)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        """Add the gradients and take this rank's parts."""
        pairs = zip(gradients, ctx.rows, strict=True)
        return None, None, *(_own_rows(gradient, rows, ctx.process_set) for gradient, rows in pairs)


class Broadcast(_Function):  # type: ignore[misc]  # see above
    """Of one tensor; the root is a place in the process set."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root: int, name: str | None, process_set: ProcessSet) -> Any:
        """Copy."""
        ctx.rest = (root, process_set)
        return synchronize(submit(Kind.BROADCAST, [tensor], process_set, name, root=root))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """Add the gradients at the root; the other ranks' tensors had no part in the result."""
        root, process_set = ctx.rest
        summed = synchronize(submit(Kind.ALLREDUCE, [gradient], process_set, None, op=Sum))
        return summed if process_set.rank() == root else torch.zeros_like(summed), None, None, None


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
        return _gathered(gradient, *ctx.rest), None, None, None


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
        return None, None, None, *(_gathered(gradient, *ctx.rest) for gradient in gradients)
