"""Keep the order of a channel's last messages: nothing is sent on a channel after its CLOSE.

paramiko builds a message under the channel's lock but sends it outside. Data or EOF of one thread can therefore follow
the CLOSE with which another thread answered the server. OpenSSH then ends the whole connection ("packet referred to
nonexistent channel"), which may be that of a jump host with every node behind it. Holding a lock while sending would
block the connection's thread in a key exchange, so the CLOSE waits for the senders instead.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any


class Order:
    """The number of senders on one channel, and the CLOSE that waits for them."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._sending = 0
        self._close: Callable[[], None] | None = None

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Register as a sender inside the context; the last sender to leave sends a pending CLOSE."""
        with self._lock:
            self._sending += 1
        try:
            yield
        finally:
            with self._lock:
                self._sending -= 1
                close = None
                if self._sending == 0:
                    close, self._close = self._close, None
            if close is not None:
                close()

    def closing(self, close: Callable[[], None]) -> None:
        """Call ``close``, which sends the CLOSE, now or after the last sender has finished."""
        with self._lock:
            now = self._sending == 0
            if not now:
                self._close = close
        if now:
            close()
            return
        # A sender that waits for room in the window must be woken, or it would wait forever.
        with self._channel.lock:
            self._channel.eof_sent = True
            self._channel.out_buffer_cv.notify_all()
