"""torch's point-to-point calls: send and recv, and how several of them are on their way at once."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from collective_core.communicator import Communicator, Source
from collective_core.errors import CollectiveCoreError
from collective_core.torch.cuda import device_of
from collective_core.torch.operations import Operations
from collective_core.torch.profile import begin_span
from collective_core.torch.tensors import as_dense, copy_back, for_copy, landing, only_one
from collective_core.torch.work import Batch, CcoreBackendError, CcoreWork, Ended, Queue, Task

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


class Transfers(Operations):
    """Mixed into the process group."""

    def send(self, tensors: Sequence[torch.Tensor], dst: int, tag: int = 0) -> CcoreWork:
        """Send a tensor to a rank. The tag is checked by the receiver; it does not change the order."""
        tensor = only_one(tensors)
        dense = as_dense(tensor)
        return self._submit_transfer(
            "send",
            f"to rank {dst}",
            tensor,
            lambda: self._communicator.send(for_copy(dense), dst, tag=tag, timeout_s=self._default_limit),
            list,  # no result: nobody need wait for a send, and its Work is not to keep what was sent
        )

    def recv(self, tensors: Sequence[torch.Tensor], src: int, tag: int = 0) -> CcoreWork:
        """Receive the next tensor that a rank sent; size, type and tag must agree."""
        tensor = only_one(tensors)
        dense = landing(tensor)
        conclude = self._landed(tensor, dense)

        return self._submit_transfer(
            "recv",
            f"from rank {src}",
            tensor,
            lambda: self._communicator.recv(for_copy(dense), src, tag=tag, timeout_s=self._default_limit),
            conclude,
        )

    def recv_anysource(self, tensors: Sequence[torch.Tensor], tag: int = 0) -> CcoreWork:
        """Receive the next tensor that any rank sent with that tag; `_source_rank` of the work is who it was."""
        tensor = only_one(tensors)
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
    ) -> CcoreWork:
        name = f"{kind} {direction} on rank {self._communicator.rank}"
        if not self._open:
            raise CcoreBackendError(f"{name}: the process group was destroyed")
        work = CcoreWork(name, begin_span(kind, [tensor]), source)
        self._worker.enqueue(Transfer(work, self._communicator, post, conclude))
        return work
