"""Messages from one rank to another, alone and in groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_ubyte
from typing import Any

from collective_core import _lib
from collective_core.buffers import as_buffer
from collective_core.handle import Handle, milliseconds


class Source:
    """Who sent what `recv_any` received."""

    def __init__(self) -> None:
        """Make one that is not known yet."""
        self._cell = c_int(-1)

    @property
    def rank(self) -> int:
        """Its rank; -1 as long as the receive, called in a group, has not ended."""
        return self._cell.value


class Transfers(Handle):
    """Each call blocks, outside of a group; `timeout_s` is its deadline, the communicator's without one."""

    def send(self, array: Any, peer: int, *, tag: int = 0, timeout_s: float | None = None) -> None:
        """Send `array` to a rank, which must receive as many elements of the type with the same tag."""
        data = as_buffer(array)
        self._call("cc_send", data.address, data.count, int(data.dtype), peer, timeout_s=timeout_s, tag=tag)

    def recv(self, array: Any, peer: int, *, tag: int = 0, timeout_s: float | None = None) -> None:
        """Receive the next message of a rank; raises DESYNC if it is not as expected."""
        data = as_buffer(array, written=True)
        self._call("cc_recv", data.address, data.count, int(data.dtype), peer, timeout_s=timeout_s, tag=tag)

    def recv_any(self, array: Any, *, tag: int = 0, timeout_s: float | None = None) -> Source:
        """Receive the next message that any rank sent with that tag; `Source.rank` is who it was.

        In a group, the source is known when the transfer has ended and must be kept until then.
        """
        data = as_buffer(array, written=True)
        source = Source()
        self._call(
            "cc_recv_any", data.address, data.count, int(data.dtype), byref(source._cell),
            timeout_s=timeout_s, tag=tag,
        )  # fmt: skip
        return source

    @contextmanager
    def group(self) -> Iterator[None]:
        """Move all sends and receives of the block at its end, together, so that none blocks another."""
        self.group_start()
        try:
            yield
        finally:
            self.group_end()

    def group_start(self) -> None:
        """Let the sends and receives of this thread be noted, not run, from here to `group_end`."""
        _lib.check(self._library.cc_group_start(self._live()))

    def group_end(self) -> None:
        """Return when all that was noted has ended."""
        _lib.check(self._library.cc_group_end(self._live()))

    def group_progress(self, wait_s: float, transfers: int) -> list[bool]:
        """Tell which of the group's transfers have ended, after one more has or `wait_s` have passed."""
        handle = self._live()
        finished = (c_ubyte * transfers)()
        code = self._library.cc_group_progress(handle, milliseconds(wait_s), finished, transfers)
        _lib.check(code)
        return [bool(one) for one in finished]
