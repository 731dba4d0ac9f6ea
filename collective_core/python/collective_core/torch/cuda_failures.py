"""The first failure of a group's operations on CUDA tensors: every later call of the group raises it."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from collective_core import environment
from collective_core.errors import CollectiveCoreError, Result
from collective_core.torch.cuda_meeting import CudaMeeting
from collective_core.torch.work import CcoreBackendError

_logger = logging.getLogger("collective_core")

# How long a program may go on after a failure without a call that raises it.
UNHEARD_S = 10.0


class CudaFailures:
    """Looks for failures on the device, and ends what the group is doing at the first."""

    def __init__(self, meeting: CudaMeeting) -> None:
        """Watch the handle of a meeting; raises CollectiveCoreError for an invalid CCORE_CUDA_ERROR."""
        self._meeting = meeting
        self.first: CcoreBackendError | None = None
        self._failed_at = 0.0
        self._is_raised = False  # to the program
        self._aborts = environment.choice("CCORE_CUDA_ERROR") == "abort"

    def look(self) -> CcoreBackendError | None:
        """Return the first failure of the group. Any thread; without a failure, one load of a word."""
        handle = self._meeting.handle
        if self.first is None and handle is not None:
            try:
                handle.poll()
            except CollectiveCoreError as error:
                self.fail(error)
        return self.first

    def check(self, description: str) -> None:
        """Raise CcoreBackendError if an operation of the group has failed."""
        if (first := self.look()) is not None:
            self._is_raised = True
            raise CcoreBackendError(f"{description}: {first}")

    def fail(self, error: CollectiveCoreError) -> None:
        """Remember the first failure, and end what else the group is doing: its other ranks must not wait."""
        if self.first is not None:
            return
        self._failed_at = time.monotonic()
        self.first = CcoreBackendError(str(error))
        _logger.error(
            "collective_core rank %d: an operation on %s failed, its results are not valid: %s",
            self._meeting.rank, self._meeting.device, error,
        )  # fmt: skip
        self._meeting.abort()

    def of_call(self, description: str, error: CollectiveCoreError) -> CcoreBackendError:
        """Return the error of a call that was refused; raise that of the group instead, if an operation has failed.

        Unless the call was invalid, the other ranks may have carried out theirs, so that the group has failed.
        """
        if error.code not in (Result.INVALID_ARGUMENT, Result.INVALID_USAGE):
            self.look()
            self.fail(error)
            self.check(description)
        return CcoreBackendError(f"{description}: {error}")

    def end_unheard(self, unheard_s: float = UNHEARD_S) -> None:
        """End a program that has not called the group for a while since a failure, as CCORE_CUDA_ERROR says."""
        if self.first is None or self._is_raised or time.monotonic() - self._failed_at < unheard_s:
            return
        self._is_raised = True
        text = (
            f"an operation on {self._meeting.device} failed {unheard_s:g} s ago, and the program has not called "
            f"its group since: {self.first}"
        )
        if self._aborts:
            _logger.critical("collective_core rank %d: %s; aborting", self._meeting.rank, text)
            os.abort()
        raise_in_main_thread(text)


def raise_in_main_thread(text: str) -> None:
    """Let the main thread raise CcoreBackendError as soon as it runs Python code."""

    class Unheard(CcoreBackendError):
        def __init__(self) -> None:  # the interpreter makes it, without arguments
            super().__init__(text)

    Unheard.__name__ = Unheard.__qualname__ = CcoreBackendError.__name__
    Unheard.__module__ = CcoreBackendError.__module__
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(threading.main_thread().ident or 0), ctypes.py_object(Unheard)
    )


# Whose failures the steps of optimizers raise: groups in use.
_checked: weakref.WeakSet[CudaFailures] = weakref.WeakSet()
_hook: list[Any] = []


def check_before_steps(failures: CudaFailures) -> None:
    """Raise a failure of the group before the step of any optimizer of the process."""
    _checked.add(failures)
    if not _hook:
        _hook.append(register_optimizer_step_pre_hook(_before_step))


def no_longer_before_steps(failures: CudaFailures) -> None:
    """Forget a group that is released."""
    _checked.discard(failures)


def _before_step(*_: object) -> None:
    # A compiled step checks nothing; the next call of the group does.
    if torch.compiler.is_compiling():
        return
    for failures in tuple(_checked):
        failures.check("optimizer step")
