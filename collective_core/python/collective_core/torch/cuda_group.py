"""The CUDA side of a process group: the order of its operations on one handle and one stream.

Operations are queued on the thread that calls them, in the order of the calls. The ranks meet on the host once, at
the first CUDA tensor (`cuda_meeting`). A thread looks for failures and deadlines (`cuda_watchdog`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from collective_core import environment
from collective_core.communicator import Communicator
from collective_core.enums import CudaPath
from collective_core.errors import CollectiveCoreError, Result
from collective_core.torch.cuda import await_end
from collective_core.torch.cuda_failures import CudaFailures, check_before_steps, no_longer_before_steps
from collective_core.torch.cuda_library import CAPTURED, Batch, Move, transfers
from collective_core.torch.cuda_meeting import CudaMeeting
from collective_core.torch.cuda_streams import OnStream, raw_stream
from collective_core.torch.cuda_watchdog import LOOK_EVERY_S, CudaWatchdog
from collective_core.torch.cuda_work import CudaWork, Launched
from collective_core.torch.profile import begin_span, end_launch
from collective_core.torch.ways import DeviceWay
from collective_core.torch.work import CcoreBackendError

# Any: torch's stubs leave its events and streams untyped.
_cuda: Any = torch.cuda
_logger = logging.getLogger("collective_core")

Operation = Callable[[DeviceWay], list[torch.Tensor]]


@dataclass(frozen=True, slots=True)
class _Deferred:
    """A send or a receive that waits for company."""

    called: float
    work: CudaWork
    move: Move
    result: list[torch.Tensor]
    kept: list[torch.Tensor]
    landed: Callable[[], None] | None  # what is queued after the arrival


class CudaGroup:
    """Made with its process group; it meets the other ranks at the first use."""

    def __init__(self, communicator: Communicator, timeout_s: float) -> None:
        """Take the communicator of the group, which must outlive this, and the group's deadline."""
        self._rank = communicator.rank
        self.timeout_s = timeout_s
        self._meeting = CudaMeeting(communicator, timeout_s)
        self._failures = CudaFailures(self._meeting)
        self._watchdog = CudaWatchdog(self._meeting, self._failures, self)
        self.blocks_in_wait = environment.flag("CCORE_CUDA_BLOCKING_WAIT", fallback=False)
        # Held from the first to the last call of an operation, so that streams see operations in one order.
        self._order = threading.RLock()
        self._waiting: list[_Deferred] = []

    @property
    def has_met(self) -> bool:
        """Whether the ranks have met."""
        return self._meeting.has_met

    @property
    def is_used(self) -> bool:
        """Whether operations go to the library."""
        return self._meeting.handle is not None

    def describe(self) -> str:
        """Return the way of CUDA tensors in one line."""
        return self._meeting.describe()

    def path_name(self) -> str:
        """Return "stream", "kernel" or "host" of the library, "staged" without it, "" before the first tensor."""
        return self._meeting.path_name()

    def meet(self, device: torch.device, limit: float | None) -> None:
        """Meet the other ranks on the host, all with their own device; collective over the communicator."""
        self._meeting.meet(device, limit)
        if self.is_used:
            self._watchdog.start()
            check_before_steps(self._failures)
        _logger.info("collective_core CUDA tensors of %s: %s", device, self.describe())

    def takes(self, *tensors: torch.Tensor) -> bool:
        """Return whether the library takes the memory of tensors as it is, so that `run` can have them."""
        if self._meeting.handle is None or not tensors:
            return False
        index = self._meeting.index
        for tensor in tensors:
            if (
                tensor.get_device() != index
                or tensor.layout is not torch.strided
                or not tensor.is_contiguous()
                or tensor.is_neg()
                or tensor.is_conj()
            ):
                return False
        return True

    def run(
        self,
        name: str,
        batch: Batch,
        tensors: list[torch.Tensor],
        result: list[torch.Tensor],
        limit: float | None,
        *,
        caller_waits: bool,
    ) -> CudaWork:
        """As `launch`, for an operation that is one call of the library, on tensors that it `takes`."""
        work = CudaWork(f"{name} on rank {self._rank}", tensors[0].device, self)
        self.check(work.description)
        self._refuse_capture(name)
        span = begin_span(name, tensors)
        try:
            with self._order:
                if self._waiting:
                    self.flush()
                handle, stream = self._meeting.live(), raw_stream(self._meeting.index)
                if caller_waits:
                    handle.launch(batch, stream)
                    work.queued(stream, result)
                    self._watchdog.note_call()
                else:
                    ticket = handle.launch_async(batch, stream)
                    work.queued(handle.stream, result, ticket, self._watched(work, ticket, tensors, limit))
        except CollectiveCoreError as error:
            raise self._failures.of_call(work.description, error) from error
        finally:
            end_launch(span)
        return work

    def launch(
        self,
        name: str,
        operation: Operation,
        tensors: Sequence[torch.Tensor],
        device: torch.device,
        limit: float | None,
        *,
        caller_waits: bool,
    ) -> CudaWork:
        """Queue an operation after what the caller's current stream has queued; raise if one has failed before.

        If the caller waits at once, it runs on that stream, else on the stream of the group.
        """
        work = CudaWork(f"{name} on rank {self._rank}", device, self)
        self._meeting.expect_device(device, work.description)
        self.check(work.description)
        self._refuse_capture(name)
        span = begin_span(name, tensors)
        try:
            with self._order, _cuda.device(device):
                self.flush()
                handle, stream = self._meeting.live(), raw_stream(device.index)
                if caller_waits:
                    work.queued(stream, operation(DeviceWay(handle, stream)))
                    self._watchdog.note_call()
                else:
                    handle.follow(stream)
                    with OnStream(handle.stream, device):
                        result = operation(DeviceWay(handle, handle.stream))
                    ticket, kept = handle.mark(handle.stream), [*tensors, *result]
                    work.queued(handle.stream, result, ticket, self._watched(work, ticket, kept, limit))
        except CollectiveCoreError as error:
            raise self._failures.of_call(work.description, error) from error
        finally:
            end_launch(span)
        return work

    def defer(
        self,
        work: CudaWork,
        move: Move,
        tensor: torch.Tensor,
        dense: torch.Tensor,
        landed: Callable[[], None] | None,
    ) -> None:
        """Queue a send or receive of `tensor`, whose contiguous memory is `dense`, together with those called next.

        They are launched when a caller waits for one of them, when another operation is called, or soon.
        """
        device = tensor.device
        self._meeting.expect_device(device, work.description)
        self.check(work.description)
        self._refuse_capture(work.description)
        with self._order:
            # The stream of the group carries out nothing else before these transfers.
            self._meeting.live().follow(raw_stream(device.index))
            self._waiting.append(
                _Deferred(
                    time.monotonic(),
                    work,
                    move,
                    [] if move.is_send else [tensor],
                    [tensor, dense],
                    landed,
                )
            )
        self._watchdog.note_call()

    def flush(self) -> None:
        """Launch the transfers that wait for company, as one exchange."""
        with self._order:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            try:
                ticket = self._exchange(waiting)
            except CollectiveCoreError as error:
                refusal = self._failures.of_call(waiting[0].work.description, error)
                for one in waiting:
                    one.work.refused(refusal)
                return
            kept = [tensor for one in waiting for tensor in one.kept]
            launched = self._watched(waiting[0].work, ticket, kept, None)
            for one in waiting:
                one.work.queued(self._meeting.live().stream, one.result, ticket, launched)

    def _exchange(self, waiting: Sequence[_Deferred]) -> int:
        """Queue transfers on the stream of the group; return the ticket of their end."""
        handle = self._meeting.live()
        handle.launch(transfers([one.move for one in waiting]), handle.stream)
        landings = [one.landed for one in waiting if one.landed is not None]
        if landings:
            with OnStream(handle.stream, waiting[0].kept[0].device):
                for landed in landings:
                    landed()
        return handle.mark(handle.stream)

    @property
    def has_deferred(self) -> bool:
        """Whether transfers wait for company."""
        return bool(self._waiting)

    def flush_old(self) -> None:
        """Launch the transfers that wait for company, if they have waited for long; raises CcoreBackendError."""
        with self._order:
            old = bool(self._waiting) and time.monotonic() - self._waiting[0].called > LOOK_EVERY_S
        if old:
            self.flush()

    def _watched(
        self, work: CudaWork, ticket: int, kept: list[torch.Tensor], limit: float | None
    ) -> Launched | None:
        """Watch what was queued on the stream of the group. What a graph reads and writes lives in its pool."""
        if ticket & CAPTURED:
            return None
        limit_s = self.timeout_s if limit is None else limit
        launched = Launched(work.description, ticket, time.monotonic(), limit_s, kept)
        self._watchdog.watch(launched)
        return launched

    def _refuse_capture(self, name: str) -> None:
        """Raise if the current stream is being captured, and the path does not allow that."""
        if self._meeting.path == CudaPath.KERNEL:
            return
        with _cuda.device(self._meeting.device):
            if not torch.cuda.is_current_stream_capturing():
                return
        raise CollectiveCoreError(
            Result.INVALID_USAGE,
            f"{name} cannot be captured in a CUDA graph on the path {self.path_name()!r}, which needs the host "
            "or waits in streams. Start MPS, or call it outside of the capture",
        )

    def check(self, description: str) -> None:
        """Raise CcoreBackendError if an operation of the group has failed."""
        self._failures.check(description)

    def give_up(self, description: str, limit_s: float) -> None:
        """Fail the group, because an operation has passed its deadline."""
        self._watchdog.give_up(description, limit_s)

    def mark(self, stream: int) -> int:
        """Return a ticket for what a stream has queued."""
        return self._meeting.live().mark(stream)

    def let_wait(self, ticket: int, stream: int) -> None:
        """Let a stream wait for what a ticket stands for. After release() that has ended."""
        if self._meeting.handle is not None:
            self._meeting.handle.let_wait(ticket, stream)

    def has_ended(self, ticket: int) -> bool:
        """Return whether what a ticket stands for has ended. After release() it has."""
        return self._meeting.handle is None or self._meeting.handle.has_ended(ticket)

    def marker(self) -> int:
        """Return a ticket for all that this rank has called, and for what the caller's current stream has queued."""
        handle = self._meeting.live()
        with self._order:
            self.flush()
            handle.follow(raw_stream(self._meeting.index))
            return handle.mark(handle.stream)

    def settle(self, marker: int, limit: float | None) -> None:
        """Return when what a ticket stands for has ended and no operation has failed."""
        limit_s = self.timeout_s if limit is None else limit
        await_end(lambda: self.has_ended(marker), self._meeting.device, limit_s)
        self.check("barrier")

    def abort(self) -> None:
        """End the operations of this rank on the device, and those of all ranks on the host."""
        self._meeting.abort()

    def release(self) -> None:
        """Let the operations of all ranks end, and free everything."""
        handle = self._meeting.handle
        no_longer_before_steps(self._failures)
        if handle is not None:
            with contextlib.suppress(CollectiveCoreError, CcoreBackendError):
                self.flush()
                handle.wait(self.timeout_s)
        self._watchdog.stop()
        self._meeting.release(has_failed=self._failures.first is not None)
