"""The CUDA side of a process group: one handle of libcollective_core_cuda.so, its streams, order and failures.

Operations are queued on the thread that calls them, in the order of the calls. The ranks meet on the host once, at
the first CUDA tensor; a communicator of its own keeps these meetings apart from the operations of the worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from collective_core import environment
from collective_core.communicator import Communicator
from collective_core.enums import CudaPath
from collective_core.errors import CollectiveCoreError, Result
from collective_core.torch.cuda import await_end
from collective_core.torch.cuda_library import LIBRARY_NAME, CudaHandle, Move, library
from collective_core.torch.cuda_work import CudaWork, Launched, PromptWork, raw_stream
from collective_core.torch.profile import begin_launch, end_launch
from collective_core.torch.ways import DeviceWay
from collective_core.torch.work import CcoreBackendError

# Any: torch's stubs leave its events and streams untyped.
_cuda: Any = torch.cuda
_autograd: Any = torch.autograd
_logger = logging.getLogger("collective_core")

Operation = Callable[[DeviceWay], list[torch.Tensor]]

# How often the watchdog looks while something is under way. Transfers that wait for company wait no longer than this.
_LOOK_EVERY_S = 0.02
# When no call was made for a while, it looks less often.
_ACTIVE_S = 5.0
_LOOK_SELDOM_S = 0.5
# A device reports its own deadline, which begins later than the host's.
_GRACE_S = 1.0
_GOODBYE_S = 2.0
# Errors of cc_cuda_create that mean "not here", on all ranks; others are faults.
_NOT_HERE = (Result.SYSTEM, Result.INVALID_ARGUMENT, Result.INVALID_USAGE)
_CAPTURE_MODE_RELAXED = 2


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
        self._communicator = communicator
        self._timeout_s = timeout_s
        self._part: Communicator | None = None
        self._handle: CudaHandle | None = None
        self._path = CudaPath.AUTO
        self._device: torch.device | None = None
        self._index = 0  # of the device
        self._stream: Any = None
        self.refusal = ""  # why there is no handle, after the ranks have met
        self.blocks_in_wait = environment.flag("CCORE_CUDA_BLOCKING_WAIT", fallback=True)
        # Held from the first to the last call of an operation, so that streams see operations in one order.
        self._order = threading.RLock()
        self._under_way: deque[Launched] = deque()
        self._waiting: list[_Deferred] = []
        self._failure: CcoreBackendError | None = None
        self._last_call = 0.0
        self._closed = threading.Event()
        self._watchdog: threading.Thread | None = None

    @property
    def has_met(self) -> bool:
        """Whether the ranks have met."""
        return self._device is not None

    @property
    def is_used(self) -> bool:
        """Whether operations go to the library."""
        return self._handle is not None

    def describe(self) -> str:
        """Return the way of CUDA tensors in one line."""
        if not self.has_met:
            return "no CUDA tensor so far"
        if self._handle is None:
            return f"staged through pinned host memory: {self.refusal}"
        return self._handle.describe()

    def path_name(self) -> str:
        """Return "stream", "kernel" or "host" of the library, "staged" without it, "" before the first tensor."""
        if not self.has_met:
            return ""
        return "staged" if self._handle is None else self._path.name.lower()

    def meet(self, device: torch.device, limit: float | None) -> None:
        """Meet the other ranks on the host, all with their own device; collective over the communicator."""
        self._device, self._index = device, device.index
        self.refusal = self._own_refusal()
        able = (ctypes.c_ubyte * 1)(0 if self.refusal else 1)
        every = (ctypes.c_ubyte * self._communicator.size)()
        self._communicator.all_gather(able, every, limit)
        if all(every):
            self._create(device)
        elif not self.refusal:
            self.refusal = f"rank {list(every).index(0)} cannot use {LIBRARY_NAME}"
        if self._handle is not None:
            self._path = self._handle.path()
            self._stream = _cuda.Stream(device)
            self._watchdog = threading.Thread(
                target=self._watch, name=f"ccore-cuda-{self._communicator.rank}", daemon=True
            )
            self._watchdog.start()
        _logger.info("collective_core CUDA tensors of %s: %s", device, self.describe())

    def _own_refusal(self) -> str:
        if environment.text("CCORE_CUDA_PATH") in ("", "staged"):
            return "CCORE_CUDA_PATH names no path on the device"
        try:
            library()
        except (OSError, AttributeError) as error:
            return f"{LIBRARY_NAME} cannot be used: {error}"
        return ""

    def _create(self, device: torch.device) -> None:
        part = self._communicator.split(0, self._communicator.rank)
        if part is None:
            raise CollectiveCoreError(Result.INTERNAL, "a split with a color made no communicator")
        try:
            with _cuda.device(device):
                self._handle = CudaHandle(part, self._timeout_s)
            self._part = part
        except CollectiveCoreError as error:
            part.destroy()
            if error.code not in _NOT_HERE:
                raise
            self.refusal = str(error)

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
        work = CudaWork(f"{name} on rank {self._communicator.rank}", device, self)
        self._expect_device(device, work.description)
        self.check(work.description)
        span = begin_launch(name, tensors)
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
            self._handle is None
            or self._waiting
            or getattr(opts, "asyncOp", True) is not False
            or tensor.layout is not torch.strided
            or tensor.get_device() != self._index
            or not tensor.is_contiguous()
            or tensor.is_neg()
            or _autograd._profiler_enabled()
            or torch._C._cuda_getDevice() != self._index
            or torch.cuda.is_current_stream_capturing()
        ):
            return None
        stream: int = raw_stream(self._index)
        return stream

    def all_reduce_promptly(self, tensor: torch.Tensor, dtype: int, redop: int, stream: int) -> CudaWork:
        """Reduce a tensor in place on the stream that `prompt_stream` has returned."""
        description = f"all_reduce on rank {self._communicator.rank}"
        self.check(description)
        address = tensor.data_ptr()
        try:
            with self._order:
                self._live().all_reduce(address, address, tensor.numel(), dtype, redop, stream)
        except CollectiveCoreError as error:
            raise self._error(description, error) from error
        self._last_call = time.monotonic()
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
        self._expect_device(device, work.description)
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
        self._last_call = time.monotonic()

    def flush(self) -> None:
        """Launch the transfers that wait for company, as one exchange."""
        with self._order:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            with _cuda.device(self._device):
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

    def _exchange(self, waiting: Sequence[_Deferred]) -> None:
        self._live().exchange([one.move for one in waiting], self._stream.cuda_stream)

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
        end = _cuda.Event()
        end.record(stream)
        launched = Launched(
            works[0].description,
            end,
            time.monotonic(),
            self._timeout_s if limit is None else limit,
            # What a graph reads and writes lives in its memory pool.
            [] if captured else kept,
        )
        for work, result in zip(works, results, strict=True):
            work.launched(stream, launched, result, captured=captured)
        if not captured:
            self._under_way.append(launched)
            if len(self._under_way) == 1:
                self._last_call = time.monotonic()

    def _called(self, description: str, operation: Callable[[], Any]) -> Any:
        try:
            return operation()
        except CollectiveCoreError as error:
            raise self._error(description, error) from error

    def _error(self, description: str, error: CollectiveCoreError) -> CcoreBackendError:
        """Return the error of a call that was refused; raise that of the group instead, if an operation has failed."""
        if error.code != Result.INVALID_ARGUMENT:
            self.check(description)
        return CcoreBackendError(f"{description}: {error}")

    def _way(self, stream: Any) -> DeviceWay:
        return DeviceWay(self._live(), stream.cuda_stream)

    def _live(self) -> CudaHandle:
        if self._handle is None:
            raise CollectiveCoreError(Result.INVALID_USAGE, "the process group was destroyed")
        return self._handle

    def _expect_device(self, device: torch.device, description: str) -> None:
        if device != self._device:
            raise CollectiveCoreError(
                Result.INVALID_USAGE,
                f"{description}: this group works on {self._device}, this tensor is on {device}; "
                "make a group of its own for it",
            )

    def _is_captured(self, name: str) -> bool:
        """Return whether the current stream is being captured; raise if the path does not allow that."""
        if not torch.cuda.is_current_stream_capturing():
            return False
        if self._path != CudaPath.KERNEL:
            raise CollectiveCoreError(
                Result.INVALID_USAGE,
                f"{name} cannot be captured in a CUDA graph on the path {self.path_name()!r}, which needs the host "
                "or waits in streams. Start MPS, or call it outside of the capture",
            )
        return True

    def check(self, description: str) -> None:
        """Raise CcoreBackendError if an operation of the group has failed."""
        if self._failure is None and self._handle is not None:
            try:
                self._handle.poll()
            except CollectiveCoreError as error:
                self._fail(error)
        if self._failure is not None:
            raise CcoreBackendError(f"{description}: {self._failure}")

    def marker(self) -> Any:
        """Return an event after all that this rank has called, and after the caller's current stream."""
        with self._order, _cuda.device(self._device):
            self.flush()
            self._stream.wait_stream(_cuda.current_stream(self._device))
            event = _cuda.Event()
            event.record(self._stream)
            return event

    def settle(self, marker: Any, limit: float | None) -> None:
        """Return when a marker is reached and no operation has failed."""
        await_end(marker, self._device, self._timeout_s if limit is None else limit)
        self.check("barrier")

    def _fail(self, error: CollectiveCoreError) -> None:
        """Remember the first failure, and end what else the group is doing: its other ranks must not wait."""
        if self._failure is not None:
            return
        self._failure = CcoreBackendError(str(error))
        _logger.error(
            "collective_core rank %d: an operation on %s failed, its results are not valid: %s",
            self._communicator.rank, self._device, error,
        )  # fmt: skip
        self.abort()

    def abort(self) -> None:
        """End the operations of this rank on the device, and those of all ranks on the host."""
        for ending in (self._handle, self._part, self._communicator):
            if ending is not None:
                with contextlib.suppress(CollectiveCoreError):
                    ending.abort()

    def _watch(self) -> None:
        """Look for failures: the host may be waiting for a stream, and not for a Work."""
        _allow_queries_during_capture()
        while True:
            is_active = self._under_way or self._waiting or time.monotonic() - self._last_call < _ACTIVE_S
            if self._closed.wait(_LOOK_EVERY_S if is_active else _LOOK_SELDOM_S):
                return
            self._look()

    def _look(self) -> None:
        with self._order:
            old = bool(self._waiting) and time.monotonic() - self._waiting[0].called > _LOOK_EVERY_S
        try:
            if old:
                self.flush()
            self.check("watchdog")
            self._retire()
        except CcoreBackendError:
            # It is logged, and every call of the group raises it. What is still under way ends on the device.
            self._under_way.clear()
        except RuntimeError as error:  # of CUDA itself, such as an illegal address of another kernel
            self._fail(CollectiveCoreError(Result.SYSTEM, str(error)))
            self._under_way.clear()

    def _retire(self) -> None:
        """Forget what has ended; fail at the deadline of what has not."""
        while self._under_way and self._under_way[0].end.query():
            self._under_way.popleft()
        if not self._under_way:
            return
        first = self._under_way[0]
        if time.monotonic() - first.began < first.limit_s + _GRACE_S:
            return
        try:
            self._live().wait(0.001)
        except CollectiveCoreError as error:
            self._fail(CollectiveCoreError(error.code, f"{first.description}: {error}"))
            raise CcoreBackendError(str(error)) from error

    def release(self) -> None:
        """Let the operations of all ranks end, and free everything."""
        if self._handle is not None:
            with contextlib.suppress(CollectiveCoreError, CcoreBackendError):
                self.flush()
                self._handle.wait(self._timeout_s)
        self._closed.set()
        if self._watchdog is not None and self._watchdog is not threading.current_thread():
            self._watchdog.join()
        self._under_way.clear()
        if self._part is not None and self._failure is None:
            # A peer may still read what this rank has given.
            with contextlib.suppress(CollectiveCoreError):
                self._part.barrier(_GOODBYE_S)
        if self._handle is not None and self._device is not None:
            with _cuda.device(self._device):
                self._handle.destroy()
            self._handle = None
        if self._part is not None:
            self._part.destroy()
            self._part = None


def _allow_queries_during_capture() -> None:
    """Let this thread ask for events while another one captures a graph, which CUDA would otherwise end."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(_CAPTURE_MODE_RELAXED)))
