"""The Work of an operation on a CUDA stream: wait() orders streams, and blocks the host only if requested."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import torch

from collective_core.torch.work import CcoreBackendError, WorkBase, keep, release, release_waited

# Any: torch's stubs leave its events and streams untyped.
_cuda: Any = torch.cuda

# The current stream of a device, by its number, as a cudaStream_t.
raw_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def stream_of(raw: int, device: torch.device) -> Any:
    """Return torch's stream of a cudaStream_t. For 0, torch's own constructor would return another stream."""
    return _cuda.ExternalStream(raw, device=device) if raw else _cuda.default_stream(device)


# A device reports its own deadline, which begins later than the host's.
GRACE_S = 1.0
_LOOK_S = 0.001
_SLEEP_S = 0.0001


class Events:
    """Events that are used again: a thread that drops one must not wait for the driver, which destroys it."""

    def __init__(self) -> None:
        """Have none."""
        self._free: deque[Any] = deque()

    def take(self) -> Any:
        """Return an event that nothing else uses."""
        try:
            return self._free.pop()
        except IndexError:
            return _cuda.Event()

    def give(self, event: Any) -> None:
        """Take back an event. Streams that wait for it have queued that."""
        self._free.append(event)


@dataclass(slots=True)
class Launched:
    """An operation that is queued or running on the device."""

    description: str
    end: Any  # the event after it
    began: float
    limit_s: float
    # Tensors that the stream reads and writes. They stay alive until it has, or until another stream waits for it.
    tensors: list[torch.Tensor] = field(default_factory=list)
    events: Events | None = None  # where the event goes; that of a capture belongs to its graph

    def __del__(self) -> None:
        """Give the event back."""
        if self.events is not None:
            self.events.give(self.end)


class Overseer(Protocol):
    """The part of a group that its works use."""

    blocks_in_wait: bool
    events: Events

    def flush(self) -> None:
        """Launch the transfers that wait to be combined with later ones."""

    def check(self, description: str) -> None:
        """Raise CcoreBackendError if an operation of the group has failed."""

    def give_up(self, launched: Launched) -> None:
        """Fail the group, because an operation has passed its deadline."""


class CudaWork(WorkBase):
    """One operation on a device."""

    def __init__(
        self, description: str, device: torch.device, overseer: Overseer, source: int | None = None
    ) -> None:
        """Make a work that is not launched yet; `source` is the sender, if it receives."""
        super().__init__()
        self._source = source
        self.description = description
        self._device = device
        self._overseer = overseer
        self._stream: Any = None
        self._launched: Launched | None = None
        self._captured = False
        self._error: CcoreBackendError | None = None
        self._result: list[torch.Tensor] = []
        self._future: torch.futures.Future[Any] | None = None

    def launched(
        self, stream: Any, launched: Launched, result: list[torch.Tensor], *, captured: bool
    ) -> None:
        """Publish the operation's stream and its output tensors; called once."""
        self._stream, self._launched, self._result, self._captured = stream, launched, result, captured
        keep(self)

    def refused(self, error: CcoreBackendError) -> None:
        """Publish the reason for which the operation was not launched."""
        self._error = error

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Let the current stream wait for the operation. With a timeout, block the host until it has ended.

        Raises CcoreBackendError if an operation of the group is known to have failed. One that fails later has no
        result either: the device writes NaN into its outputs before the stream goes on.
        """
        launched = self._found()
        current = _cuda.current_stream(self._device)
        if current != self._stream:
            current.wait_event(launched.end)
        seconds = timeout.total_seconds()
        if not self._captured:
            if seconds > 0 or self._overseer.blocks_in_wait:
                self._block(launched, seconds)
            self._overseer.check(self.description)
        launched.tensors.clear()
        release_waited(self, self._result)
        return True

    def synchronize(self) -> None:
        """As wait, without a timeout."""
        self.wait()

    def _block(self, launched: Launched, seconds: float) -> None:
        """Wait at most `seconds`; 0: to the deadline of the operation, which the device reports first."""
        begin = time.monotonic()
        while not launched.end.query():
            waited = time.monotonic() - begin
            self._overseer.check(self.description)
            if seconds > 0 and waited > seconds:
                raise CcoreBackendError(f"{self.description}: not complete after {seconds:g} s")
            if seconds == 0 and waited > launched.limit_s + GRACE_S:
                self._overseer.give_up(launched)
            time.sleep(0 if waited < _LOOK_S else _SLEEP_S)

    def _found(self) -> Launched:
        """Return the launched operation; launch it first if it waits to be combined with others."""
        if self._launched is None and self._error is None:
            self._overseer.flush()
        if self._error is not None:
            raise self._error
        if self._launched is None:
            raise CcoreBackendError(f"{self.description}: it was not launched")
        return self._launched

    def get_future(self) -> torch.futures.Future[Any]:
        """Return a completed future of the output tensors; streams that use its value wait for the operation."""
        self._found()
        if self._future is None:
            future: torch.futures.Future[Any] = torch.futures.Future(devices=[self._device])
            # The future records an event on the current stream.
            with _cuda.stream(self._stream):
                future.set_result(self._result)
            self._future = future
            release(self)
        return self._future

    def is_completed(self) -> bool:
        """Return whether the operation has ended, with or without an error. Raise what wait() would raise."""
        launched = self._found()
        ended = bool(launched.end.query())
        self._overseer.check(self.description)
        return ended

    def is_success(self) -> bool:
        """Return whether the operation has ended without an error."""
        return self.exception() is None and self.is_completed()

    def exception(self) -> BaseException | None:
        """Return the error of the group, if an operation has failed."""
        try:
            self._found()
            self._overseer.check(self.description)
        except CcoreBackendError as error:
            return error
        return None

    def _source_rank(self) -> int:
        """Return the sender's rank, if it receives."""
        if self._source is None:
            raise CcoreBackendError(f"{self.description} is not a receive")
        return self._source

    def result(self) -> list[torch.Tensor]:
        """Return the output tensors, for the current stream."""
        self.wait()
        return self._result


class PromptWork(CudaWork):
    """An operation that was queued on its caller's stream, because the caller waits for it next.

    An event is recorded only when a caller needs one, so it may end after the operation itself.
    """

    def __init__(
        self,
        description: str,
        device: torch.device,
        overseer: Overseer,
        stream: int,
        limit_s: float,
        result: list[torch.Tensor],
    ) -> None:
        """Take the stream (a cudaStream_t) on which it was queued."""
        super().__init__(description, device, overseer)
        self._raw = stream
        self._limit_s = limit_s
        self._result = result
        keep(self)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """As CudaWork.wait."""
        if timeout or self._overseer.blocks_in_wait or raw_stream(self._device.index) != self._raw:
            return super().wait(timeout)
        self._overseer.check(self.description)
        release_waited(self, self._result)
        return True

    def _found(self) -> Launched:
        if self._launched is None:
            self._stream = stream_of(self._raw, self._device)
            events = self._overseer.events
            end = events.take()
            end.record(self._stream)
            self._launched = Launched(self.description, end, time.monotonic(), self._limit_s, events=events)
        return self._launched
