"""Make a communicator in such a way that Ctrl-C ends the waiting for other ranks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from ctypes import byref, c_void_p
from typing import Any

from collective_core import _lib

# What a fault of the thread itself raises; all others are for the thread of the program.
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}


def joined(join: Callable[[Any], int]) -> c_void_p:
    """Return the communicator that `join` stores where its argument points to; it may wait until its deadline.

    Python runs handlers of signals on the main thread between its own instructions, so a call of the library there
    would keep them waiting. It is made on another thread instead, which leaves no communicator behind if an exception
    of a handler, such as KeyboardInterrupt, has ended the waiting. Raises what `join` raises, and CollectiveCoreError.
    """
    if threading.current_thread() is not threading.main_thread():
        handle = c_void_p()
        _lib.check(join(byref(handle)))
        return handle
    attempt = _Attempt(join)
    thread = threading.Thread(target=attempt.run, name="collective_core joins", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(1)
    except BaseException:
        attempt.give_up()
        raise
    if attempt.error is not None:
        raise attempt.error
    return attempt.handle


class _Attempt:
    def __init__(self, join: Callable[[Any], int]) -> None:
        self._join = join
        self._lock = threading.Lock()
        self._has_ended = False
        self._is_given_up = False
        self.handle = c_void_p()
        self.error: Exception | None = None

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
        try:
            _lib.check(self._join(byref(self.handle)))
        except Exception as error:  # noqa: BLE001  # whatever it is, the thread of the program raises it
            self.error = error
        with self._lock:
            self._has_ended = True
            if self._is_given_up:
                self._destroy()

    def give_up(self) -> None:
        with self._lock:
            self._is_given_up = True
            if self._has_ended:
                self._destroy()

    def _destroy(self) -> None:
        if self.handle.value:
            _lib.library().cc_comm_destroy(self.handle)
