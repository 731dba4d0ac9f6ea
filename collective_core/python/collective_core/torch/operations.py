"""The collectives of the library on tensors, and how a call becomes a Work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from collective_core.communicator import Communicator
from collective_core.torch import cuda_pipeline, shared_gpu
from collective_core.torch.cuda import Streams, device_of
from collective_core.torch.cuda_nodes import CudaNodes
from collective_core.torch.cuda_pipeline import CudaReduce
from collective_core.torch.exchange import combined, combined_block, combiner
from collective_core.torch.profile import begin_span
from collective_core.torch.shared_gpu import SharedGpu
from collective_core.torch.sparse import sparse_all_reduce
from collective_core.torch.tensors import (
    as_dense,
    as_it_reads,
    copy_back,
    empty_on_host,
    for_copy,
    for_reduction,
    landing,
    refuse,
)
from collective_core.torch.work import CcoreBackendError, CcoreWork, Worker


class Operations:
    """Base of the mixins with torch's methods."""

    def __init__(self, communicator: Communicator, timeout: timedelta) -> None:
        """Take over the communicator and start the worker; `timeout` is the group's."""
        self._communicator = communicator
        self._streams = Streams(timeout.total_seconds())
        self._shared_gpu = SharedGpu(communicator, timeout.total_seconds())
        self._cuda_reduce = CudaReduce(communicator)
        self._cuda_nodes = CudaNodes(communicator)
        self._worker = Worker(f"ccore-{communicator.rank}")
        self._open = True
        self._default_limit: float | None = None  # the communicator's own

    def set_timeout(self, timeout: timedelta) -> None:
        """Change the deadline of the operations called from now on that have none of their own."""
        if timeout <= timedelta(0):
            raise refuse(f"a timeout must be positive, this is {timeout}")
        self._default_limit = timeout.total_seconds()

    def _submit(
        self,
        name: str,
        opts: Any,
        operation: Callable[[float | None], list[Any]],
        inputs: Sequence[torch.Tensor] = (),
    ) -> CcoreWork:
        """Start an operation, which is given its deadline in seconds; None: the communicator's.

        The inputs are what a profile shows of it. If they are CUDA tensors, it runs after what the caller's current
        stream has queued.
        """
        if not self._open:
            raise CcoreBackendError(f"{name}: the process group was destroyed")
        limit = limit_of(opts) or self._default_limit
        if (device := device_of(inputs)) is not None:
            operation = self._streams.after_callers(device, name, operation)
        return self._worker.submit(
            CcoreWork(f"{name} on rank {self._communicator.rank}", begin_span(name, inputs)),
            lambda: operation(limit),
            caller_waits=getattr(opts, "asyncOp", True) is False,
        )

    def _reduce(self, tensor: torch.Tensor, op: object, limit: float | None) -> torch.Tensor:
        if tensor.layout != torch.strided:
            return sparse_all_reduce(self._communicator, tensor, op, limit)
        if (
            tensor.is_cuda
            and combiner(tensor.dtype, op) is None
            and self._reduced_on_device(tensor, op, limit)
        ):
            return tensor
        dense = as_dense(tensor)
        if (combine := combiner(dense.dtype, op)) is not None:
            dense = combined(self._communicator, dense, combine, limit)
        else:
            buffer, redop = for_reduction(dense, op)
            self._communicator.all_reduce(buffer, buffer, redop, limit)
        copy_back(tensor, dense)
        return tensor

    def _reduced_on_device(self, tensor: torch.Tensor, op: object, limit: float | None) -> bool:
        """Reduce a CUDA tensor without a copy of all of it on the host; False, on every rank, if it is too small."""
        size_bytes = tensor.numel() * tensor.element_size()
        if size_bytes < shared_gpu.SMALLEST_BYTES:
            return False
        dense = as_it_reads(tensor).contiguous()
        buffer, redop = for_reduction(dense, op)
        if not self._shared_gpu.all_reduce(dense, buffer, redop, limit):
            if size_bytes < cuda_pipeline.SMALLEST_BYTES:
                return False
            self._cuda_reduce.run(dense, buffer, redop, limit)
        copy_back(tensor, dense)
        return True

    def _reduce_scatter(
        self, output: torch.Tensor, source: torch.Tensor, op: object, limit: float | None
    ) -> torch.Tensor:
        dense, target = as_dense(source), landing(output)
        if (combine := combiner(dense.dtype, op)) is not None:
            counts = [target.numel()] * self._communicator.size
            target = combined_block(self._communicator, dense, counts, combine, limit)
        else:
            buffer, redop = for_reduction(dense, op)
            self._communicator.reduce_scatter(buffer, for_reduction(target, op)[0], redop, limit)
        copy_back(output, target)
        return output

    def _broadcast(self, tensor: torch.Tensor, root: int, limit: float | None) -> torch.Tensor:
        dense = as_dense(tensor)
        self._communicator.broadcast(for_copy(dense), root, limit)
        copy_back(tensor, dense)
        return tensor

    def _gather(self, output: torch.Tensor, source: torch.Tensor, limit: float | None) -> torch.Tensor:
        target = landing(output)
        self._communicator.all_gather(for_copy(as_dense(source)), for_copy(target), limit)
        copy_back(output, target)
        return output

    def _gather_list(
        self, outputs: list[torch.Tensor], source: torch.Tensor, limit: float | None
    ) -> list[torch.Tensor]:
        joined = empty_on_host(source, (self._communicator.size, *source.shape))
        self._gather(joined, source, limit)
        spread(joined, outputs)
        return outputs


def reduction_of(opts: Any) -> object:
    return dist.ReduceOp.SUM if opts is None else opts.reduceOp


def limit_of(opts: Any) -> float | None:
    """Seconds of the call's own deadline; torch marks "none given" with a negative time."""
    timeout = getattr(opts, "timeout", None)
    if not isinstance(timeout, timedelta) or timeout.total_seconds() <= 0:
        return None
    return timeout.total_seconds()


def joined(blocks: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([block.detach() for block in blocks])


def spread(joined: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
    flat, begin = joined.flatten(), 0
    for output in outputs:
        part = flat[begin : begin + output.numel()].view(output.shape)
        output.detach().copy_(part, non_blocking=output.is_cuda)
        begin += output.numel()


def check_one_per_rank(blocks: Sequence[torch.Tensor], like: torch.Tensor, size: int) -> None:
    if len(blocks) != size:
        raise refuse(f"expected one tensor per rank ({size}), got {len(blocks)}")
    if any(block.numel() != like.numel() or block.dtype != like.dtype for block in blocks):
        raise refuse("the tensors of all ranks must agree in size and type")


def check_blocks(large: torch.Tensor, small: torch.Tensor, size: int) -> None:
    if large.numel() != size * small.numel() or large.dtype != small.dtype:
        raise refuse(f"the larger tensor must have {size} times the elements of the other and its type")
