"""A thread that looks after operations on a device: the host may be waiting for a stream, and not for a Work."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any, Protocol

import torch

from collective_core.errors import CollectiveCoreError, Result
from collective_core.torch.cuda_failures import CudaFailures
from collective_core.torch.cuda_meeting import CudaMeeting
from collective_core.torch.cuda_work import GRACE_S, Launched
from collective_core.torch.work import CcoreBackendError

# Any: torch's stubs leave set_device() untyped.
_cuda: Any = torch.cuda
_logger = logging.getLogger("collective_core")

# How often it looks while something is under way. Transfers that wait for company wait no longer than this.
LOOK_EVERY_S = 0.02
# When no call was made for a while, it looks less often.
_ACTIVE_S = 5.0
_LOOK_SELDOM_S = 0.5


class Deferring(Protocol):
    """Who has transfers that wait for company."""

    @property
    def has_deferred(self) -> bool:
        """Whether some wait."""

    def flush_old(self) -> None:
        """Launch those that have waited for LOOK_EVERY_S; raises CcoreBackendError."""

    def has_ended(self, ticket: int) -> bool:
        """Return whether what a ticket stands for has ended."""


class CudaWatchdog:
    """Fails the group at the deadline of an operation, and forgets what has ended."""

    def __init__(self, meeting: CudaMeeting, failures: CudaFailures, deferring: Deferring) -> None:
        """Look after the operations of a group, once it is started."""
        self._meeting = meeting
        self._failures = failures
        self._deferring = deferring
        self._under_way: deque[Launched] = deque()
        self._last_call = 0.0
        self._notice = ""  # that was logged
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, after the ranks have met."""
        self._thread = threading.Thread(
            target=self._watch, name=f"ccore-cuda-{self._meeting.rank}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Idempotent."""
        self._closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._under_way.clear()
        self._log_notice()

    def note_call(self) -> None:
        """Look often for a while: the group was called."""
        self._last_call = time.monotonic()

    def watch(self, launched: Launched) -> None:
        """Look after an operation until it has ended."""
        self._under_way.append(launched)
        if len(self._under_way) == 1:
            self.note_call()

    def give_up(self, description: str, limit_s: float) -> None:
        """Fail the group, because an operation has passed its deadline. Calls nothing of CUDA."""
        self._failures.fail(
            CollectiveCoreError(
                Result.TIMEOUT,
                f"{description}: the operation did not end within {limit_s:g} s; work that was "
                "queued before it on its stream may not have ended",
            )
        )

    def _watch(self) -> None:
        # Without a device of its own, a thread's first call of torch makes a context on device 0.
        _cuda.set_device(self._meeting.device)
        while True:
            is_active = (
                self._under_way
                or self._deferring.has_deferred
                or time.monotonic() - self._last_call < _ACTIVE_S
            )
            if self._closed.wait(LOOK_EVERY_S if is_active else _LOOK_SELDOM_S):
                return
            self._look()

    def _look(self) -> None:
        # After a failure it calls nothing of CUDA: the program may wait for a stream and hold the driver's lock. The
        # tensors of what is under way stay alive until the group is released, since the device still writes to them.
        if self._failures.look() is not None:
            self._failures.end_unheard()
            return
        try:
            self._deferring.flush_old()
            self._retire()
            self._log_notice()
        except CcoreBackendError:
            pass  # It is logged, and every call of the group raises it.
        except CollectiveCoreError as error:  # of CUDA itself, such as an illegal address of another kernel
            self._failures.fail(error)

    def _log_notice(self) -> None:
        """Log once what the library does more slowly than it could; every rank logs the same text."""
        handle = self._meeting.handle
        if handle is None or self._notice:
            return
        self._notice = handle.notice()
        if self._notice:
            _logger.warning("collective_core CUDA tensors of %s: %s", self._meeting.device, self._notice)

    def _retire(self) -> None:
        """Forget what has ended; fail at the deadline of what has not."""
        while self._under_way and self._deferring.has_ended(self._under_way[0].ticket):
            self._under_way.popleft()
        if not self._under_way:
            return
        first = self._under_way[0]
        if time.monotonic() - first.began > first.limit_s + GRACE_S:
            self.give_up(first.description, first.limit_s)
