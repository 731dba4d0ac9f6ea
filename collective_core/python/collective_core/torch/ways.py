"""The two ways of an operation: through the library's host memory, or on a CUDA device, ordered by its stream.

Both have the same calls. Buffers of `HostWay` are host memory, those of `DeviceWay` are memory of its device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch

from collective_core import _lib
from collective_core.communicator import Buffer, Communicator, Dtype, Redop
from collective_core.topk import Residual, Topk
from collective_core.torch.cuda_library import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    CudaHandle,
    Move,
    call,
    collectives,
    transfers,
)
from collective_core.torch.tensors import as_dense, as_it_reads, check_dense, empty_on_host, landing


class Way(Protocol):
    """What an operation is made of. The calls are those of Communicator."""

    rank: int
    size: int

    def dense(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return contiguous memory of this way with the tensor's elements: the tensor itself, or a copy."""

    def landing(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return contiguous memory of this way for a result: the tensor itself, or new memory."""

    def empty(self, like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """Return contiguous memory of this way of a tensor's type."""

    def all_reduce(self, buffer: Buffer, redop: Redop) -> None:
        """Reduce in place."""

    def reduce(self, buffer: Buffer, root: int, redop: Redop) -> None:
        """Reduce in place on the root."""

    def reduce_scatter(self, source: Buffer, target: Buffer, redop: Redop) -> None:
        """Reduce one block per rank; each rank keeps its own."""

    def broadcast(self, buffer: Buffer, root: int) -> None:
        """Copy the root's buffer to all."""

    def all_gather(self, source: Buffer, target: Buffer) -> None:
        """Concatenate blocks of one size."""

    def all_gatherv(self, source: Buffer, target: Buffer, counts: Sequence[int]) -> None:
        """Concatenate blocks of `counts` elements."""

    def gather(self, source: Buffer, target: Buffer, root: int) -> None:
        """Concatenate blocks on the root; elsewhere `target` is empty."""

    def scatter(self, source: Buffer, target: Buffer, root: int) -> None:
        """Give each rank its block of the root's `source`."""

    def all_to_all(
        self,
        source: Buffer,
        target: Buffer,
        sent: Sequence[int] | None = None,
        received: Sequence[int] | None = None,
    ) -> None:
        """Exchange blocks of `sent` and `received` elements; without these, of equal size."""


class HostWay:
    """Through host memory: calls block, with a deadline in seconds. CUDA tensors are copied to pinned memory."""

    def __init__(self, communicator: Communicator, limit: float | None) -> None:
        """Take the communicator and the deadline; None: the communicator's."""
        self.communicator = communicator
        self.limit = limit
        self.rank, self.size = communicator.rank, communicator.size

    def dense(self, tensor: torch.Tensor) -> torch.Tensor:
        """As Way.dense."""
        return as_dense(tensor)

    def landing(self, tensor: torch.Tensor) -> torch.Tensor:
        """As Way.landing."""
        return landing(tensor)

    def empty(self, like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """As Way.empty; pinned, if the tensor is on a CUDA device."""
        return empty_on_host(like, shape)

    def all_reduce(self, buffer: Buffer, redop: Redop) -> None:
        """As Way.all_reduce."""
        self.communicator.all_reduce(buffer, buffer, redop, self.limit)

    def topk_all_reduce(self, buffer: Buffer, redop: Redop, residual: Residual | None, topk: Topk) -> None:
        """Reduce in place by top-k. What is not sent goes to the residual."""
        self.communicator.topk_all_reduce(buffer, buffer, residual, topk, redop, self.limit)

    def reduce(self, buffer: Buffer, root: int, redop: Redop) -> None:
        """As Way.reduce."""
        self.communicator.reduce(buffer, buffer, root, redop, self.limit)

    def reduce_scatter(self, source: Buffer, target: Buffer, redop: Redop) -> None:
        """As Way.reduce_scatter."""
        self.communicator.reduce_scatter(source, target, redop, self.limit)

    def broadcast(self, buffer: Buffer, root: int) -> None:
        """As Way.broadcast."""
        self.communicator.broadcast(buffer, root, self.limit)

    def all_gather(self, source: Buffer, target: Buffer) -> None:
        """As Way.all_gather."""
        self.communicator.all_gather(source, target, self.limit)

    def all_gatherv(self, source: Buffer, target: Buffer, counts: Sequence[int]) -> None:
        """As Way.all_gatherv."""
        self.communicator.all_gatherv(source, target, counts, self.limit)

    def gather(self, source: Buffer, target: Buffer, root: int) -> None:
        """As Way.gather."""
        self.communicator.gather(source, target, root, self.limit)

    def scatter(self, source: Buffer, target: Buffer, root: int) -> None:
        """As Way.scatter."""
        self.communicator.scatter(source, target, root, self.limit)

    def all_to_all(
        self,
        source: Buffer,
        target: Buffer,
        sent: Sequence[int] | None = None,
        received: Sequence[int] | None = None,
    ) -> None:
        """As Way.all_to_all."""
        self.communicator.all_to_all(source, target, sent, received, self.limit)


class DeviceWay:
    """On a CUDA device: calls queue work on a stream, which is the current one, and return."""

    def __init__(self, handle: CudaHandle, stream: int) -> None:
        """Take the handle and the stream (a cudaStream_t)."""
        self._handle = handle
        self._stream = stream
        self.rank, self.size = handle.rank, handle.size

    def dense(self, tensor: torch.Tensor) -> torch.Tensor:
        """As Way.dense."""
        check_dense(tensor)
        return as_it_reads(tensor).contiguous()

    def landing(self, tensor: torch.Tensor) -> torch.Tensor:
        """As Way.landing."""
        return self.dense(tensor)

    def empty(self, like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """As Way.empty."""
        return like.new_empty(shape)

    def all_reduce(self, buffer: Buffer, redop: Redop) -> None:
        """As Way.all_reduce."""
        self._run(ALL_REDUCE, buffer.address, buffer, redop)

    def reduce(self, buffer: Buffer, root: int, redop: Redop) -> None:
        """As Way.reduce. It is an all_reduce whose result the others than the root throw away."""
        if self.rank == root:
            self.all_reduce(buffer, redop)
            return
        size_bytes = buffer.count * _element_bytes(buffer.dtype)
        scratch = torch.empty(size_bytes, dtype=torch.uint8, device="cuda")
        self._run(ALL_REDUCE, buffer.address, replace(buffer, address=scratch.data_ptr()), redop)

    def reduce_scatter(self, source: Buffer, target: Buffer, redop: Redop) -> None:
        """As Way.reduce_scatter."""
        self._run(REDUCE_SCATTER, source.address, target, redop)

    def broadcast(self, buffer: Buffer, root: int) -> None:
        """As Way.broadcast."""
        self._run(BROADCAST, buffer.address, buffer, root=root)

    def all_gather(self, source: Buffer, target: Buffer) -> None:
        """As Way.all_gather."""
        self._run(ALL_GATHER, source.address, replace(source, address=target.address))

    def all_gatherv(self, source: Buffer, target: Buffer, counts: Sequence[int]) -> None:
        """As Way.all_gatherv."""
        every = range(self.size)
        self._exchange(
            [_whole(source, rank, is_send=True) for rank in every if counts[self.rank]]
            + _blocks(target, counts, is_send=False)
        )

    def gather(self, source: Buffer, target: Buffer, root: int) -> None:
        """As Way.gather."""
        moves = [_whole(source, root, is_send=True)]
        if self.rank == root:
            moves += _blocks(target, [source.count] * self.size, is_send=False)
        self._exchange(moves)

    def scatter(self, source: Buffer, target: Buffer, root: int) -> None:
        """As Way.scatter."""
        moves = [_whole(target, root, is_send=False)]
        if self.rank == root:
            moves += _blocks(source, [target.count] * self.size, is_send=True)
        self._exchange(moves)

    def all_to_all(
        self,
        source: Buffer,
        target: Buffer,
        sent: Sequence[int] | None = None,
        received: Sequence[int] | None = None,
    ) -> None:
        """As Way.all_to_all."""
        self._exchange(moves_of_all_to_all(self.size, source, target, sent, received))

    def _run(self, number: int, send: int, target: Buffer, redop: Redop = Redop.SUM, root: int = 0) -> None:
        """Queue a collective; the library counts the elements of `target`, those of one rank in an all_gather."""
        one = call(number, send, target.address, target.count, int(target.dtype), int(redop), root)
        self._handle.launch(collectives(one), self._stream)

    def _exchange(self, moves: list[Move]) -> None:
        self._handle.launch(transfers(moves), self._stream)


def moves_of_all_to_all(
    size: int,
    source: Buffer,
    target: Buffer,
    sent: Sequence[int] | None = None,
    received: Sequence[int] | None = None,
) -> list[Move]:
    """Return what Way.all_to_all of a device with `size` ranks exchanges."""
    leaving = sent or [source.count // size] * size
    coming = received or [target.count // size] * size
    return _blocks(source, leaving, is_send=True) + _blocks(target, coming, is_send=False)


def _element_bytes(dtype: Dtype) -> int:
    return int(_lib.library().cc_dtype_size(int(dtype)))


def _whole(buffer: Buffer, peer: int, *, is_send: bool) -> Move:
    return Move(buffer.address, buffer.count * _element_bytes(buffer.dtype), peer, is_send)


def _blocks(buffer: Buffer, counts: Sequence[int], *, is_send: bool) -> list[Move]:
    """Return a move for the block of each rank; the blocks follow each other in the buffer."""
    element, address, moves = _element_bytes(buffer.dtype), buffer.address, []
    for peer, count in enumerate(counts):
        moves.append(Move(address, count * element, peer, is_send))
        address += count * element
    return moves
