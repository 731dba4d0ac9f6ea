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
from collective_core.torch.cuda_library import Move
from collective_core.torch.cuda_meeting import CudaMeeting
from collective_core.torch.cuda_watchdog import LOOK_EVERY_S, CudaWatchdog
from collective_core.torch.cuda_work import CudaWork, Events, Launched, PromptWork, raw_stream
from collective_core.torch.profile import begin_span, end_launch
from collective_core.torch.ways import DeviceWay
from collective_core.torch.work import CcoreBackendError

# Any: torch's stubs leave its events and streams untyped.
_cuda: Any = torch.cuda
_autograd: Any = torch.autograd
_logger = logging.getLogger("collective_core")

Operation = Callable[[DeviceWay], list[torch.Tensor]]


@dataclass(frozen=True, slots=True)
class _Deferred:
    """A send or a receive that waits for company."""

    called: float
    work: CudaWork
    move: Move
    ready: Any  # the event after what its tensor needs
    result: list[torch.Tensor]
    kept: list[torch.Tensor]
    landed: Callable[[], None] | None  # what is queued after the arrival


class CudaGroup:
    """Made with its process group; it meets the other ranks at the first use."""

    def __init__(self, communicator: Communicator, timeout_s: float) -> None:
        """Take the communicator of the group, which must outlive this, and the group's deadline."""
        self._rank = communicator.rank
        self._timeout_s = timeout_s
        self._meeting = CudaMeeting(communicator, timeout_s)
        self._failures = CudaFailures(self._meeting)
        self._watchdog = CudaWatchdog(self._meeting, self._failures, self)
        self._stream: Any = None
        self.blocks_in_wait = environment.flag("CCORE_CUDA_BLOCKING_WAIT", fallback=False)
        self.events = Events()
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
            self._stream = _cuda.Stream(device)
            self._watchdog.start()
            check_before_steps(self._failures)
        _logger.info("collective_core CUDA tensors of %s: %s", device, self.describe())

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
        span = begin_span(name, tensors)
        try:
            with self._order, _cuda.device(device):
                self.flush()
                current = _cuda.current_stream(device)
                captured = self._is_captured(name)
                if caller_waits:
                    result = self._called(work.description, lambda: operation(self._way(current)))
                    self._publish([work], [result], current, [], limit, captured=captured)
                    return work
                self._stream.wait_stream(current)
                with _cuda.stream(self._stream):
                    result = self._called(work.description, lambda: operation(self._way(self._stream)))
                self._publish([work], [result], self._stream, [*tensors, *result], limit, captured=captured)
                return work
        finally:
            end_launch(span)

    def prompt_stream(self, tensor: torch.Tensor, opts: Any) -> int | None:
        """Return the current stream (a cudaStream_t) if a call may be queued there without what `launch` does.

        The caller waits for the call, the tensor is as the library takes it, and nothing must be queued before.
        """
        if (
            self._meeting.handle is None
            or self._waiting
            or getattr(opts, "asyncOp", True) is not False
            or tensor.layout is not torch.strided
            or tensor.get_device() != self._meeting.index
            or not tensor.is_contiguous()
            or tensor.is_neg()
            or _autograd._profiler_enabled()
            or torch._C._cuda_getDevice() != self._meeting.index
            or torch.cuda.is_current_stream_capturing()
        ):
            return None
        stream: int = raw_stream(self._meeting.index)
        return stream

    def all_reduce_promptly(self, tensor: torch.Tensor, dtype: int, redop: int, stream: int) -> CudaWork:
        """Reduce a tensor in place on the stream that `prompt_stream` has returned."""
        description = f"all_reduce on rank {self._rank}"
        self.check(description)
        address = tensor.data_ptr()
        try:
            with self._order:
                self._meeting.live().all_reduce(address, address, tensor.numel(), dtype, redop, stream)
        except CollectiveCoreError as error:
            raise self._failures.of_call(description, error) from error
        self._watchdog.note_call()
        return PromptWork(description, tensor.device, self, stream, self._timeout_s, [tensor])

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
        with self._order, _cuda.device(device):
            self._is_captured(work.description)
            ready = _cuda.Event()
            ready.record(_cuda.current_stream(device))
            self._waiting.append(
                _Deferred(
                    time.monotonic(),
                    work,
                    move,
                    ready,
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
            with _cuda.device(self._meeting.device):
                captured = torch.cuda.is_current_stream_capturing()
                for one in waiting:
                    self._stream.wait_event(one.ready)
                with _cuda.stream(self._stream):
                    try:
                        self._called(waiting[0].work.description, lambda: self._exchange(waiting))
                    except CcoreBackendError as error:
                        for one in waiting:
                            one.work.refused(error)
                        return
                    for one in waiting:
                        if one.landed is not None:
                            one.landed()
                self._publish(
                    [one.work for one in waiting],
                    [one.result for one in waiting],
                    self._stream,
                    [tensor for one in waiting for tensor in one.kept],
                    None,
                    captured=captured,
                )

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

    def _exchange(self, waiting: Sequence[_Deferred]) -> None:
        self._meeting.live().exchange([one.move for one in waiting], self._stream.cuda_stream)

    def _publish(
        self,
        works: list[CudaWork],
        results: list[list[torch.Tensor]],
        stream: Any,
        kept: list[torch.Tensor],
        limit: float | None,
        *,
        captured: bool,
    ) -> None:
        end = _cuda.Event() if captured else self.events.take()
        end.record(stream)
        launched = Launched(
            works[0].description,
            end,
            time.monotonic(),
            self._timeout_s if limit is None else limit,
            # What a graph reads and writes lives in its memory pool.
            [] if captured else kept,
            None if captured else self.events,
        )
        for work, result in zip(works, results, strict=True):
            work.launched(stream, launched, result, captured=captured)
        if not captured:
            self._watchdog.watch(launched)

    def _called(self, description: str, operation: Callable[[], Any]) -> Any:
        try:
            return operation()
        except CollectiveCoreError as error:
            raise self._failures.of_call(description, error) from error

    def _way(self, stream: Any) -> DeviceWay:
        return DeviceWay(self._meeting.live(), stream.cuda_stream)

    def _is_captured(self, name: str) -> bool:
        """Return whether the current stream is being captured; raise if the path does not allow that."""
        if not torch.cuda.is_current_stream_capturing():
            return False
        if self._meeting.path != CudaPath.KERNEL:
            raise CollectiveCoreError(
                Result.INVALID_USAGE,
                f"{name} cannot be captured in a CUDA graph on the path {self.path_name()!r}, which needs the host "
                "or waits in streams. Start MPS, or call it outside of the capture",
            )
        return True

    def check(self, description: str) -> None:
        """Raise CcoreBackendError if an operation of the group has failed."""
        self._failures.check(description)

    def give_up(self, launched: Launched) -> None:
        """Fail the group, because an operation has passed its deadline."""
        self._watchdog.give_up(launched)

    def marker(self) -> Any:
        """Return an event after all that this rank has called, and after the caller's current stream."""
        with self._order, _cuda.device(self._meeting.device):
            self.flush()
            self._stream.wait_stream(_cuda.current_stream(self._meeting.device))
            event = _cuda.Event()
            event.record(self._stream)
            return event

    def settle(self, marker: Any, limit: float | None) -> None:
        """Return when a marker is reached and no operation has failed."""
        await_end(marker, self._meeting.device, self._timeout_s if limit is None else limit)
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
                handle.wait(self._timeout_s)
        self._watchdog.stop()
        self._meeting.release(has_failed=self._failures.first is not None)
