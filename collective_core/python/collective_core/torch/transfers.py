"""torch's point-to-point calls: send and recv, and how several of them are on their way at once."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch

from collective_core.communicator import Communicator, Source
from collective_core.errors import CollectiveCoreError
from collective_core.torch.cuda import device_of
from collective_core.torch.cuda_library import Move
from collective_core.torch.cuda_work import CudaWork
from collective_core.torch.operations import Operations
from collective_core.torch.profile import begin_span, end_launch
from collective_core.torch.tensors import (
    as_dense,
    as_it_reads,
    check_dense,
    copy_back,
    for_copy,
    landing,
    only_one,
    refuse,
)
from collective_core.torch.work import Batch, CcoreBackendError, CcoreWork, Ended, Queue, Task, WorkBase

# How long the worker waits for the links before it looks for newly called transfers.
_LOOK_EVERY_S = 0.002


@dataclass(frozen=True, slots=True)
class Transfer(Batch):
    """A send or a receive. Those that follow each other in the queue move together, whatever their order."""

    work: CcoreWork
    communicator: Communicator
    post: Callable[[], None]
    conclude: Callable[[], list[torch.Tensor]]

    def run(self, queued: Queue, ended: Ended) -> list[Task | None]:
        """Move this transfer and all that are called meanwhile; return what else was found in the queue."""
        posted: list[Transfer] = []
        done: list[bool] = []
        following: list[Task | None] = []  # the first that is no transfer; nothing behind it is looked at

        def post(transfer: Transfer) -> None:
            try:
                transfer.post()
            except CollectiveCoreError as error:
                ended(transfer, None, CcoreBackendError(f"{transfer.work.description}: {error}"))
                return
            posted.append(transfer)
            done.append(False)

        def conclude(transfer: Transfer) -> None:
            try:
                result = transfer.conclude()
            except Exception as error:  # noqa: BLE001  # of torch, whose copy may refuse: the waiter's, not this thread's
                ended(transfer, None, error)
            else:
                ended(transfer, result, None)

        def fail(error: CollectiveCoreError) -> None:
            for index, transfer in enumerate(posted):
                if not done[index]:
                    done[index] = True
                    ended(transfer, None, CcoreBackendError(f"{transfer.work.description}: {error}"))

        try:
            self.communicator.group_start()
        except CollectiveCoreError as error:
            ended(self, None, CcoreBackendError(f"{self.work.description}: {error}"))
            return following
        post(self)
        try:
            while True:
                while not following:
                    try:
                        item = queued.get_nowait()
                    except queue.Empty:
                        break
                    if isinstance(item, Transfer):
                        post(item)
                    else:
                        following.append(item)
                if all(done):
                    break
                for index, finished in enumerate(
                    self.communicator.group_progress(_LOOK_EVERY_S, len(posted))
                ):
                    if finished and not done[index]:
                        done[index] = True
                        conclude(posted[index])
            self.communicator.group_end()
        except CollectiveCoreError as error:
            fail(error)
        return following


class TransferList(WorkBase):
    """Several transfers that are waited for as one."""

    def __init__(self, works: Sequence[WorkBase]) -> None:
        """Take the works of the transfers."""
        super().__init__()
        self._works = tuple(works)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for each transfer, as its own work does; `timeout` is for each one."""
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self) -> None:
        """As wait, without a timeout."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether all transfers have ended."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Return whether all transfers have ended without an error."""
        return all(work.is_success() for work in self._works)

    def result(self) -> list[torch.Tensor]:
        """Return no tensors: the caller's own hold what was received."""
        return []


class Transfers(Operations):
    """Mixed into the process group."""

    # Those called since _start_coalescing, which torch 2.4 calls for each list of transfers of CUDA tensors.
    _listed: list[WorkBase] | None = None

    def _start_coalescing(self, _device: torch.device) -> None:
        """Begin a list of transfers. They are carried out as if they were called alone."""
        self._expect_open("batch_isend_irecv")
        self._listed = []

    def _end_coalescing(self, _device: torch.device) -> TransferList:
        """Return one work for all transfers since _start_coalescing."""
        works, self._listed = self._listed or [], None
        return TransferList(works)

    def _as_listed(self, work: WorkBase) -> WorkBase:
        if self._listed is not None:
            self._listed.append(work)
        return work

    def send(self, tensors: Sequence[torch.Tensor], dst: int, tag: int = 0) -> WorkBase:
        """Send a tensor to a rank. The tag does not change the order; a receiver on the host checks it."""
        tensor = only_one(tensors)
        if self._defers(tensor, "send", dst):
            return self._defer("send", f"to rank {dst}", tensor, dst, is_send=True)
        dense = as_dense(tensor)
        return self._submit_transfer(
            "send",
            f"to rank {dst}",
            tensor,
            lambda: self._communicator.send(for_copy(dense), dst, tag=tag, timeout_s=self._default_limit),
            list,  # no result: nobody need wait for a send, and its Work is not to keep what was sent
        )

    def recv(self, tensors: Sequence[torch.Tensor], src: int, tag: int = 0) -> WorkBase:
        """Receive the next tensor that a rank sent; size, type and tag must agree (on a device, only the size)."""
        tensor = only_one(tensors)
        if self._defers(tensor, "recv", src):
            return self._defer("recv", f"from rank {src}", tensor, src, is_send=False)
        dense = landing(tensor)
        conclude = self._landed(tensor, dense)

        return self._submit_transfer(
            "recv",
            f"from rank {src}",
            tensor,
            lambda: self._communicator.recv(for_copy(dense), src, tag=tag, timeout_s=self._default_limit),
            conclude,
        )

    def recv_anysource(self, tensors: Sequence[torch.Tensor], tag: int = 0) -> WorkBase:
        """Receive the next tensor that any rank sent with that tag; `_source_rank` of the work is who it was."""
        tensor = only_one(tensors)
        if self._defers(tensor, "recv", None):
            raise refuse(
                "a CUDA tensor cannot be received from any rank: name the source, or receive on the CPU"
            )
        dense = landing(tensor)
        sources: list[Source] = []

        def post() -> None:
            sources.append(
                self._communicator.recv_any(for_copy(dense), tag=tag, timeout_s=self._default_limit)
            )

        conclude = self._landed(tensor, dense)

        return self._submit_transfer(
            "recvAnySource", "from any rank", tensor, post, conclude, lambda: sources[0].rank
        )

    def _defers(self, tensor: torch.Tensor, name: str, peer: int | None) -> bool:
        """Return whether a tensor is sent or received by its device.

        One that a rank sends to itself goes through the host: the first use of the device needs all ranks.
        """
        self._expect_open(name)
        if peer == self._communicator.rank:
            return False
        device = device_of([tensor])
        return device is not None and self._on_device(device, name, self._default_limit)

    def _defer(
        self, kind: str, direction: str, tensor: torch.Tensor, peer: int, *, is_send: bool
    ) -> WorkBase:
        check_dense(tensor)
        dense = as_it_reads(tensor).contiguous()
        is_copy = dense.data_ptr() != tensor.data_ptr()
        name = f"{kind} {direction} on rank {self._communicator.rank}"
        work = CudaWork(name, tensor.device, self._cuda, None if is_send else peer)
        move = Move(dense.data_ptr(), dense.numel() * dense.element_size(), peer, is_send)
        landed = None if is_send or not is_copy else lambda: copy_back(tensor, dense)
        span = begin_span(kind, [tensor])
        try:
            self._cuda.defer(work, move, tensor, dense, landed)
        finally:
            end_launch(span)
        return self._as_listed(work)

    def _landed(self, tensor: torch.Tensor, dense: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
        """Return what brings a received tensor home, on a CUDA device after what the caller's stream has queued."""

        def home(_: float | None) -> list[torch.Tensor]:
            copy_back(tensor, dense)
            return [tensor]

        device = device_of([tensor])
        ordered = home if device is None else self._streams.after_callers(device, "recv", home)
        return lambda: ordered(self._default_limit)

    def _submit_transfer(
        self,
        kind: str,
        direction: str,
        tensor: torch.Tensor,
        post: Callable[[], None],
        conclude: Callable[[], list[torch.Tensor]],
        source: Callable[[], int] | None = None,
    ) -> WorkBase:
        name = f"{kind} {direction} on rank {self._communicator.rank}"
        self._expect_open(name)
        work = CcoreWork(name, begin_span(kind, [tensor]), source)
        self._worker.enqueue(Transfer(work, self._communicator, post, conclude))
        return self._as_listed(work)
