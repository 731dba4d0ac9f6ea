"""Who owns a communicator of the C ABI, and how its functions are called."""

from __future__ import annotations

from ctypes import CDLL, byref, c_void_p, sizeof
from typing import Any

from collective_core import _lib
from collective_core.errors import CollectiveCoreError, Result

_MOST_MS = 2.0**62  # of an int64_t, in a number that a float can be


class Handle:
    """A cc_comm until it is destroyed, with this rank's place."""

    _library: CDLL
    _handle: c_void_p | None
    rank: int
    size: int

    def destroy(self) -> None:
        """Say goodbye to the others and free everything; later calls raise. Idempotent.

        Operations of other threads end with ABORTED. No thread may begin a call at the same time.
        """
        handle, self._handle = self._handle, None
        if handle:
            _lib.check(self._library.cc_comm_destroy(handle))

    def _live(self) -> c_void_p:
        if not self._handle:
            raise CollectiveCoreError(Result.INVALID_USAGE, "the communicator was destroyed")
        return self._handle

    def _call(self, name: str, *arguments: Any, timeout_s: float | None, tag: int = 0) -> None:
        handle = self._live()
        options = _lib.OpOptions(size=sizeof(_lib.OpOptions), timeout_ms=milliseconds(timeout_s), tag=tag)
        code = getattr(self._library, name)(*arguments, handle, byref(options))
        _lib.check(code)


def milliseconds(seconds: float | None) -> int:
    """0 stands for the default, so the shortest deadline is a millisecond; the longest, math.inf, all that fit."""
    return 0 if seconds is None else max(1, int(min(seconds * 1000, _MOST_MS)))
