"""The Work of an operation on a CUDA stream: wait() orders streams, and blocks the host only if requested."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import torch

from collective_core.torch.cuda_library import CAPTURED
from collective_core.torch.cuda_streams import OnStream, raw_stream
from collective_core.torch.work import CcoreBackendError, WorkBase, keep, release, release_waited

# A device reports its own deadline, which begins later than the host's.
GRACE_S = 1.0
_LOOK_S = 0.001
_SLEEP_S = 0.0001


@dataclass(slots=True)
class Launched:
    """An asynchronous operation that is queued or running on the device."""

    description: str
    ticket: int
    began: float
    limit_s: float
    # Tensors that the stream reads and writes. They stay alive until it has, or until another stream waits for it.
    tensors: list[torch.Tensor] = field(default_factory=list)


class Overseer(Protocol):
    """The part of a group that its works use."""

    blocks_in_wait: bool
    timeout_s: float

    def flush(self) -> None:
        """Launch the transfers that wait to be combined with later ones."""

    def check(self, description: str) -> None:
        """Raise CcoreBackendError if an operation of the group has failed."""

    def give_up(self, description: str, limit_s: float) -> None:
        """Fail the group, because an operation has passed its deadline."""

    def mark(self, stream: int) -> int:
        """Return a ticket for what a stream has queued."""

    def let_wait(self, ticket: int, stream: int) -> None:
        """Let a stream wait for what a ticket stands for."""

    def has_ended(self, ticket: int) -> bool:
        """Return whether what a ticket stands for has ended."""


class CudaWork(WorkBase):
    """One operation on a device, on a stream of the group, or on that of a caller that waits for it next.

    The latter has no ticket before a caller needs one, so that its end may come after the operation itself.
    """

    _stream: int | None = None  # a cudaStream_t, once it is queued
    _ticket: int | None = None
    _launched: Launched | None = None
    _is_kept = False  # that of a caller who waits next is not: C++ does not hold it
    _result: list[torch.Tensor]
    _error: CcoreBackendError | None = None
    _future: torch.futures.Future[Any] | None = None

    def __init__(
        self, description: str, device: torch.device, overseer: Overseer, source: int | None = None
    ) -> None:
        """Make a work that is not queued yet; `source` is the sender, if it receives."""
        super().__init__()
        self.description = description
        self._device = device
        self._overseer = overseer
        self._source = source

    def queued(
        self,
        stream: int,
        result: list[torch.Tensor],
        ticket: int | None = None,
        launched: Launched | None = None,
    ) -> None:
        """Publish the operation's stream, its output tensors and, unless the caller waits, its end; called once."""
        self._stream, self._result = stream, result
        if ticket is not None:
            self._ticket, self._launched, self._is_kept = ticket, launched, True
            keep(self)

    def refused(self, error: CcoreBackendError) -> None:
        """Publish the reason for which the operation was not launched."""
        self._error = error

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Let the current stream wait for the operation. With a timeout, block the host until it has ended.

        Raises CcoreBackendError if an operation of the group is known to have failed. One that fails later has no
        result either: the device writes NaN into its outputs before the stream goes on.
        """
        stream = self._stream
        if stream is None:
            stream = self._found()
        current = raw_stream(self._device.index)
        if current != stream:
            self._overseer.let_wait(self._end(), current)
        overseer = self._overseer
        if timeout or overseer.blocks_in_wait:
            self._block(timeout.total_seconds())
        overseer.check(self.description)
        if self._is_kept:
            if self._launched is not None:
                self._launched.tensors.clear()
            release_waited(self, self._result)
        return True

    def synchronize(self) -> None:
        """As wait, without a timeout."""
        self.wait()

    def _block(self, seconds: float) -> None:
        """Wait at most `seconds`; 0: to the deadline of the operation, which the device reports first."""
        ticket = self._end()
        if ticket & CAPTURED:
            return
        limit_s = self._overseer.timeout_s if self._launched is None else self._launched.limit_s
        begin = time.monotonic()
        while not self._overseer.has_ended(ticket):
            waited = time.monotonic() - begin
            self._overseer.check(self.description)
            if seconds > 0 and waited > seconds:
                raise CcoreBackendError(f"{self.description}: not complete after {seconds:g} s")
            if seconds == 0 and waited > limit_s + GRACE_S:
                self._overseer.give_up(self.description, limit_s)
            time.sleep(0 if waited < _LOOK_S else _SLEEP_S)

    def _found(self) -> int:
        """Return the operation's stream; launch it first if it waits to be combined with others."""
        if self._stream is None and self._error is None:
            self._overseer.flush()
        if self._error is not None:
            raise self._error
        if self._stream is None:
            raise CcoreBackendError(f"{self.description}: it was not launched")
        return self._stream

    def _end(self) -> int:
        """Return the ticket of the operation's end."""
        if self._ticket is None:
            self._ticket = self._overseer.mark(self._found())
        return self._ticket

    def get_future(self) -> torch.futures.Future[Any]:
        """Return a completed future of the output tensors; streams that use its value wait for the operation."""
        stream = self._found()
        if self._future is None:
            future: torch.futures.Future[Any] = torch.futures.Future(devices=[self._device])
            # The future records an event on the current stream.
            with OnStream(stream, self._device):
                future.set_result(self._result)
            self._future = future
            release(self)
        return self._future

    def is_completed(self) -> bool:
        """Return whether the operation has ended, with or without an error. Raise what wait() would raise."""
        self._found()
        ended = self._overseer.has_ended(self._end())
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
