"""The torch.distributed backend `ccore`: a ProcessGroup over the communicator, for CPU tensors.

Import this module (or let torch find the entry point), then
`torch.distributed.init_process_group("ccore", ...)`. Works under DDP. Point-to-point calls are not offered.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from collective_core import _lib
from collective_core.autoload import BACKEND_NAME, register
from collective_core.communicator import Communicator, get_unique_id
from collective_core.torch_tensors import as_dense, copy_back, for_copy, for_reduction, only_one, refuse
from collective_core.torch_work import CcoreBackendError, CcoreWork, Worker

__all__ = ["CcoreBackendError", "CcoreProcessGroup", "create_process_group"]

_logger = logging.getLogger("collective_core")
_ID_KEY = "ccore_unique_id"


# Any: the signatures in torch's stubs change with every release, and this class serves all of them.
_ProcessGroup: Any = dist.ProcessGroup


class CcoreProcessGroup(_ProcessGroup):  # type: ignore[misc]  # see above
    """Collectives in the order of their calls, on one worker thread; each call returns a CcoreWork at once."""

    def __init__(self, communicator: Communicator) -> None:
        """Take over the communicator."""
        super().__init__(communicator.rank, communicator.size)
        self._communicator = communicator
        self._rank = communicator.rank
        self._size = communicator.size
        self._worker = Worker(f"ccore-{communicator.rank}")
        self._open = True
        self._group_name = ""
        self._group_desc = ""

    # Names. torch asks for them through these methods, and only answers itself if there is a C++ backend.

    def getBackendName(self) -> str:
        """Return the name under which the backend is registered."""
        return BACKEND_NAME

    def name(self) -> str:
        """As getBackendName."""
        return BACKEND_NAME

    def setGroupName(self, name: str) -> None:
        """Remember torch's name of the group."""
        self._group_name = name

    def getGroupName(self) -> str:
        """Return torch's name of the group."""
        return self._group_name

    def setGroupDesc(self, desc: str) -> None:
        """Remember the description of the group."""
        self._group_desc = desc

    def getGroupDesc(self) -> str:
        """Return the description of the group."""
        return self._group_desc

    @property
    def group_name(self) -> str:
        """As getGroupName."""
        return self._group_name

    @property
    def group_desc(self) -> str:
        """As getGroupDesc."""
        return self._group_desc

    def rank(self) -> int:
        """Return this process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    def getRank(self) -> int:
        """As rank."""
        return self._rank

    def getSize(self) -> int:
        """As size."""
        return self._size

    # Reductions.

    def allreduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> CcoreWork:
        """Reduce one tensor over all ranks, in place."""
        tensor = only_one(tensors)
        return self._submit("all_reduce", opts, lambda limit: [self._reduce(tensor, _op(opts), limit)])

    def allreduce_coalesced(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> CcoreWork:
        """Reduce several tensors as one operation."""
        listed = list(tensors)
        return self._submit(
            "all_reduce of several",
            opts,
            lambda limit: [self._reduce(one, _op(opts), limit) for one in listed],
        )

    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any) -> CcoreWork:
        """Reduce to the root; the tensors of the others stay as they are."""
        tensor = only_one(tensors)

        def run(limit: float | None) -> list[torch.Tensor]:
            if self._rank == opts.rootRank:
                return [self._reduce(tensor, opts.reduceOp, limit)]
            self._reduce(as_dense(tensor).clone(), opts.reduceOp, limit)
            return [tensor]

        return self._submit("reduce", opts, run)

    def reduce_scatter(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[Sequence[torch.Tensor]], opts: Any = None
    ) -> CcoreWork:
        """Reduce a list with one tensor per rank; each rank keeps its own."""
        output, blocks = only_one(outputs), list(inputs[0])
        _one_per_rank(blocks, output, self._size)
        return self._submit(
            "reduce_scatter",
            opts,
            lambda limit: [self._reduce_scatter(output, _joined(blocks), _op(opts), limit)],
        )

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> CcoreWork:
        """Reduce a tensor of one block per rank; each rank keeps its block."""
        _blocks(input, output, self._size)
        return self._submit(
            "reduce_scatter", opts, lambda limit: [self._reduce_scatter(output, input, _op(opts), limit)]
        )

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Run several reduce_scatter_single as one operation."""
        pairs = list(zip(outputs, inputs, strict=True))
        for output, source in pairs:
            _blocks(source, output, self._size)
        return self._submit(
            "reduce_scatter of several",
            opts,
            lambda limit: [
                self._reduce_scatter(output, source, _op(opts), limit) for output, source in pairs
            ],
        )

    # Copies.

    def broadcast(self, tensors: Sequence[torch.Tensor], opts: Any) -> CcoreWork:
        """Copy the root's tensor to all."""
        tensor = only_one(tensors)
        return self._submit("broadcast", opts, lambda limit: [self._broadcast(tensor, opts.rootRank, limit)])

    def allgather(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Collect one tensor per rank into a list on every rank."""
        listed, tensor = list(outputs[0]), only_one(inputs)
        _one_per_rank(listed, tensor, self._size)
        return self._submit("all_gather", opts, lambda limit: [self._gather_list(listed, tensor, limit)])

    def allgather_coalesced(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Collect several tensors per rank; outputs[r] is what rank r gave."""
        by_input = [[row[i] for row in outputs] for i in range(len(inputs))]
        listed = list(inputs)
        return self._submit(
            "all_gather of several",
            opts,
            lambda limit: [self._gather_list(by_input[i], one, limit) for i, one in enumerate(listed)],
        )

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> CcoreWork:
        """Collect one block per rank into one tensor."""
        _blocks(output, input, self._size)
        return self._submit("all_gather", opts, lambda limit: [self._gather(output, input, limit)])

    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Run several all_gather_single as one operation."""
        pairs = list(zip(outputs, inputs, strict=True))
        for output, source in pairs:
            _blocks(output, source, self._size)
        return self._submit(
            "all_gather of several",
            opts,
            lambda limit: [self._gather(output, source, limit) for output, source in pairs],
        )

    def gather(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any
    ) -> CcoreWork:
        """Collect one tensor per rank on the root. Costs an all_gather."""
        tensor = only_one(inputs)
        listed = list(outputs[0]) if outputs else [torch.empty_like(tensor) for _ in range(self._size)]
        _one_per_rank(listed, tensor, self._size)
        return self._submit("gather", opts, lambda limit: [self._gather_list(listed, tensor, limit)])

    def scatter(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[Sequence[torch.Tensor]], opts: Any
    ) -> CcoreWork:
        """Give each rank one tensor of the root's list. Costs a broadcast of the whole list."""
        output = only_one(outputs)
        blocks = list(inputs[0]) if self._rank == opts.rootRank else [output] * self._size
        _one_per_rank(blocks, output, self._size)

        def run(limit: float | None) -> list[torch.Tensor]:
            joined = self._broadcast(_joined(blocks), opts.rootRank, limit)
            output.detach().copy_(joined[self._rank].view(output.shape))
            return [output]

        return self._submit("scatter", opts, run)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> CcoreWork:
        """Exchange equal blocks between all ranks. Costs an all_gather; uneven splits are refused."""
        if len(set(output_split_sizes)) > 1 or len(set(input_split_sizes)) > 1:
            raise CcoreBackendError("the ccore backend has no all_to_all with uneven splits")
        if input.numel() != output.numel() or input.numel() % self._size:
            raise CcoreBackendError("all_to_all needs equal tensors that the number of ranks divides")

        def run(limit: float | None) -> list[torch.Tensor]:
            everything = torch.empty((self._size, self._size, input.numel() // self._size), dtype=input.dtype)
            self._gather(everything, input, limit)
            output.detach().copy_(everything[:, self._rank].reshape(output.shape))
            return [output]

        return self._submit("all_to_all", opts, run)

    def alltoall(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> CcoreWork:
        """Exchange lists of equal tensors between all ranks. Costs an all_gather."""
        targets, blocks = list(outputs), list(inputs)
        _one_per_rank(blocks, targets[0], self._size)
        _one_per_rank(targets, blocks[0], self._size)

        def run(limit: float | None) -> list[torch.Tensor]:
            joined = _joined(blocks)
            everything = torch.empty((self._size, *joined.shape), dtype=joined.dtype)
            self._gather(everything, joined, limit)
            for source, target in enumerate(targets):
                target.detach().copy_(everything[source, self._rank].view(target.shape))
            return targets

        return self._submit("all_to_all", opts, run)

    def barrier(self, opts: Any = None) -> CcoreWork:
        """Complete when all ranks have called it."""

        def run(limit: float | None) -> list[torch.Tensor]:
            self._communicator.barrier(limit)
            return []

        return self._submit("barrier", opts, run)

    # What is not there. Without these, torch would say "no backend type associated", which helps nobody.

    def send(self, *_: Any) -> CcoreWork:
        """Refuse: there is no point-to-point transfer yet."""
        raise CcoreBackendError("the ccore backend has no send; use gloo for point-to-point transfers")

    def recv(self, *_: Any) -> CcoreWork:
        """Refuse: there is no point-to-point transfer yet."""
        raise CcoreBackendError("the ccore backend has no recv; use gloo for point-to-point transfers")

    recv_anysource = recv

    # Names of the same calls in torch before 2.13.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # End.

    def shutdown(self) -> None:
        """Finish what was called, then leave the group."""
        if self._open:
            self._open = False
            self._worker.stop()
            self._communicator.destroy()

    def abort(self) -> None:
        """End what is running with an error on all ranks, then leave the group."""
        if self._open:
            self._communicator.abort()
            self.shutdown()

    # Helpers, on the worker thread.

    def _submit(self, name: str, opts: Any, operation: Callable[[float | None], list[Any]]) -> CcoreWork:
        if not self._open:
            raise CcoreBackendError(f"{name}: the process group was destroyed")
        limit = _limit(opts)
        work = self._worker.submit(f"{name} on rank {self._rank}", lambda: operation(limit))
        if opts is not None and getattr(opts, "asyncOp", True) is False:
            work.wait()
        return work

    def _reduce(self, tensor: torch.Tensor, op: object, limit: float | None) -> torch.Tensor:
        dense = as_dense(tensor)
        buffer, redop = for_reduction(dense, op)
        self._communicator.all_reduce(buffer, buffer, redop, limit)
        copy_back(tensor, dense)
        return tensor

    def _reduce_scatter(
        self, output: torch.Tensor, source: torch.Tensor, op: object, limit: float | None
    ) -> torch.Tensor:
        dense, target = as_dense(source), as_dense(output)
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
        target = as_dense(output)
        self._communicator.all_gather(for_copy(as_dense(source)), for_copy(target), limit)
        copy_back(output, target)
        return output

    def _gather_list(
        self, outputs: list[torch.Tensor], source: torch.Tensor, limit: float | None
    ) -> list[torch.Tensor]:
        joined = torch.empty((self._size, *source.shape), dtype=source.dtype)
        self._gather(joined, source, limit)
        for output, block in zip(outputs, joined, strict=True):
            output.detach().copy_(block.view(output.shape))
        return outputs


def _op(opts: Any) -> object:
    return dist.ReduceOp.SUM if opts is None else opts.reduceOp


def _limit(opts: Any) -> float | None:
    """Seconds of the call's own deadline; torch marks "none given" with a negative time."""
    timeout = getattr(opts, "timeout", None)
    if not isinstance(timeout, timedelta) or timeout.total_seconds() <= 0:
        return None
    return timeout.total_seconds()


def _joined(blocks: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([block.detach() for block in blocks])


def _one_per_rank(blocks: Sequence[torch.Tensor], like: torch.Tensor, size: int) -> None:
    if len(blocks) != size:
        raise refuse(f"expected one tensor per rank ({size}), got {len(blocks)}")
    if any(block.numel() != like.numel() or block.dtype != like.dtype for block in blocks):
        raise refuse("the tensors of all ranks must agree in size and type")


def _blocks(large: torch.Tensor, small: torch.Tensor, size: int) -> None:
    if large.numel() != size * small.numel() or large.dtype != small.dtype:
        raise refuse(f"the larger tensor must have {size} times the elements of the other and its type")


def create_process_group(store: Any, rank: int, size: int, timeout: timedelta) -> CcoreProcessGroup:
    """Make the group; torch calls it with the group's own part of the store. Rank 0's id travels through it."""
    if rank == 0:
        unique_id = get_unique_id()
        store.set(_ID_KEY, unique_id)
    else:
        unique_id = bytes(store.get(_ID_KEY))
    seconds = timeout.total_seconds()
    communicator = Communicator(rank, size, unique_id, timeout_s=seconds, init_timeout_s=seconds)
    _announce(communicator)
    return CcoreProcessGroup(communicator)


def _announce(communicator: Communicator) -> None:
    """Say on stderr that this backend is the one in use, when CCORE_DEBUG asks for it."""
    if os.environ.get("CCORE_DEBUG") in {"VERSION", "INFO", "TRACE"} and not _logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        _logger.addHandler(handler)
        _logger.setLevel(logging.INFO)
    rank, size = communicator.rank, communicator.size
    transports = ",".join(sorted({communicator.peer(peer).transport for peer in range(size) if peer != rank}))
    _logger.info(
        "collective_core %s ccore backend init rank %d/%d host %s transport %s",
        _lib.version(), rank, size, communicator.peer(rank).host, transports or "self",
    )  # fmt: skip


register()
