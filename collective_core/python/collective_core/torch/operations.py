"""The collectives of the library on tensors, and how a call becomes a Work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from collective_core.communicator import Communicator
from collective_core.torch import cuda_pipeline
from collective_core.torch.cuda import Streams, device_of
from collective_core.torch.cuda_group import CudaGroup
from collective_core.torch.cuda_library import Batch
from collective_core.torch.cuda_nodes import CudaNodes
from collective_core.torch.cuda_pipeline import CudaReduce
from collective_core.torch.exchange import combined, combined_block, combiner
from collective_core.torch.nodes_way import NodesWay
from collective_core.torch.profile import begin_span
from collective_core.torch.sparse import sparse_all_reduce
from collective_core.torch.tensors import (
    as_it_reads,
    check_dense,
    copy_back,
    for_copy,
    for_reduction,
    refuse,
    scaled,
)
from collective_core.torch.ways import HostWay, Way
from collective_core.torch.work import CcoreBackendError, CcoreWork, WorkBase, Worker

_NO_TIME = timedelta(0)


class Operations:
    """Base of the mixins with torch's methods."""

    def __init__(self, communicator: Communicator, timeout: timedelta) -> None:
        """Take over the communicator and start the worker; `timeout` is the group's."""
        self._communicator = communicator
        self._streams = Streams(timeout.total_seconds())
        self._cuda = CudaGroup(communicator, timeout.total_seconds())
        self._cuda_reduce = CudaReduce(communicator)
        self._cuda_nodes = CudaNodes(communicator, timeout.total_seconds())
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
        operation: Callable[[Way], list[Any]],
        inputs: Sequence[torch.Tensor] = (),
        *,
        needs_host: bool = False,
    ) -> WorkBase:
        """Start an operation, which is given the way that it is to take.

        The inputs are what a profile shows of it. If they are CUDA tensors, it runs after what the caller's current
        stream has queued: on the device, unless it `needs_host` or the library cannot serve the device.
        """
        self._expect_open(name)
        limit = limit_of(opts) or self._default_limit
        caller_waits = getattr(opts, "asyncOp", True) is False
        device = device_of(inputs)
        if device is not None and not needs_host and self._on_device(device, name, limit):
            return self._cuda.launch(name, operation, inputs, device, limit, caller_waits=caller_waits)

        def on_host(limit: float | None) -> list[Any]:
            return operation(HostWay(self._communicator, limit))

        run = on_host if device is None else self._streams.after_callers(device, name, on_host)
        return self._worker.submit(
            CcoreWork(f"{name} on rank {self._communicator.rank}", begin_span(name, inputs)),
            lambda: run(limit),
            caller_waits=caller_waits,
        )

    def _run(
        self,
        name: str,
        opts: Any,
        batch: Batch,
        inputs: Sequence[torch.Tensor],
        result: list[torch.Tensor],
    ) -> WorkBase:
        """Start an operation that is one call of the library for devices, on tensors that it takes as they are."""
        self._expect_open(name)
        if getattr(opts, "asyncOp", True) is False:
            return self._cuda.run(name, batch, [*inputs, *result], result, None, caller_waits=True)
        limit = limit_of(opts) or self._default_limit
        return self._cuda.run(name, batch, [*inputs, *result], result, limit, caller_waits=False)

    def _expect_open(self, name: str) -> None:
        if not self._open:
            raise CcoreBackendError(f"{name}: the process group was destroyed")

    def _on_device(self, device: torch.device, name: str, limit: float | None) -> bool:
        """Return whether CUDA tensors go through the library for devices; at the first one, the ranks meet."""
        if not self._cuda.has_met:
            if torch.cuda.is_current_stream_capturing():
                raise refuse(f"{name}: the first CUDA tensor of a group cannot be captured in a CUDA graph")
            self._worker.submit(
                CcoreWork(f"first CUDA tensor on rank {self._communicator.rank}"),
                lambda: self._cuda.meet(device, limit),
                caller_waits=True,
            ).wait()
        return self._cuda.is_used

    def _reduce(self, way: Way, tensor: torch.Tensor, op: object) -> torch.Tensor:
        if isinstance(way, HostWay):
            if tensor.layout != torch.strided:
                return sparse_all_reduce(way.communicator, tensor, op, way.limit)
            if tensor.is_cuda and combiner(tensor.dtype, op) is None and self._cuda_nodes.takes(tensor):
                way = self._between_nodes(way)
            elif self._reduced_in_chunks(way, tensor, op):
                return tensor
        dense, op = scaled(way.dense(tensor), op)
        if (combine := combiner(dense.dtype, op)) is not None:
            dense = combined(way, dense, combine)
        else:
            way.all_reduce(*for_reduction(dense, op))
        copy_back(tensor, dense)
        return tensor

    def _between_nodes(self, way: HostWay) -> NodesWay:
        return NodesWay(self._communicator, way.limit, self._cuda_nodes)

    def _reduced_in_chunks(self, way: HostWay, tensor: torch.Tensor, op: object) -> bool:
        """Reduce a large CUDA tensor chunk by chunk through the host; False, on every rank, if it is not one."""
        if not tensor.is_cuda or tensor.numel() * tensor.element_size() < cuda_pipeline.SMALLEST_BYTES:
            return False
        if combiner(tensor.dtype, op) is not None:
            return False
        check_dense(tensor)
        dense, op = scaled(as_it_reads(tensor).contiguous(), op)
        self._cuda_reduce.run(dense, *for_reduction(dense, op), way.limit)
        copy_back(tensor, dense)
        return True

    def _reduce_scatter(
        self, way: Way, output: torch.Tensor, source: torch.Tensor, op: object
    ) -> torch.Tensor:
        dense, op = scaled(way.dense(source), op)
        target = way.landing(output)
        if (combine := combiner(dense.dtype, op)) is not None:
            target = combined_block(way, dense, [target.numel()] * way.size, combine)
        else:
            buffer, redop = for_reduction(dense, op)
            way.reduce_scatter(buffer, for_reduction(target, op)[0], redop)
        copy_back(output, target)
        return output

    def _broadcast(self, way: Way, tensor: torch.Tensor, root: int) -> torch.Tensor:
        dense = way.dense(tensor)
        way.broadcast(for_copy(dense), root)
        copy_back(tensor, dense)
        return tensor

    def _gather(self, way: Way, output: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        target = way.landing(output)
        way.all_gather(for_copy(way.dense(source)), for_copy(target))
        copy_back(output, target)
        return output

    def _gather_list(self, way: Way, outputs: list[torch.Tensor], source: torch.Tensor) -> list[torch.Tensor]:
        joined = way.empty(source, (way.size, *source.shape))
        self._gather(way, joined, source)
        spread(joined, outputs)
        return outputs


def reduction_of(opts: Any) -> object:
    return dist.ReduceOp.SUM if opts is None else opts.reduceOp


def limit_of(opts: Any) -> float | None:
    """Seconds of the call's own deadline; torch marks "none given" with a negative time."""
    timeout = getattr(opts, "timeout", None)
    return timeout.total_seconds() if isinstance(timeout, timedelta) and timeout > _NO_TIME else None


def joined(blocks: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([block.detach() for block in blocks])


def spread(joined: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
    flat, begin = joined.flatten(), 0
    for output in outputs:
        part = flat[begin : begin + output.numel()].view(output.shape)
        output.detach().copy_(part, non_blocking=output.is_cuda)
        begin += output.numel()


def _check_count(blocks: Sequence[torch.Tensor], size: int) -> None:
    if len(blocks) != size:
        raise refuse(f"expected one tensor per rank ({size}), got {len(blocks)}")


def check_one_per_rank(blocks: Sequence[torch.Tensor], like: torch.Tensor, size: int) -> None:
    _check_count(blocks, size)
    if any(block.numel() != like.numel() or block.dtype != like.dtype for block in blocks):
        raise refuse("the tensors of all ranks must agree in size and type")


def check_own_block(blocks: Sequence[torch.Tensor], own: torch.Tensor, rank: int, size: int) -> None:
    """Raise CollectiveCoreError unless there is a block of one type per rank, and this rank's has the size of `own`."""
    _check_count(blocks, size)
    if any(block.dtype != own.dtype for block in blocks):
        raise refuse(f"the tensors of all ranks must have the type of the result, {own.dtype}")
    if blocks[rank].numel() != own.numel():
        raise refuse(
            f"the tensor of this rank ({rank}) has {blocks[rank].numel()} elements, the result {own.numel()}"
        )


def check_blocks(large: torch.Tensor, small: torch.Tensor, size: int) -> None:
    if large.numel() != size * small.numel() or large.dtype != small.dtype:
        raise refuse(f"the larger tensor must have {size} times the elements of the other and its type")
