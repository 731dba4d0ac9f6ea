"""The order of a channel's last messages: nothing is sent on a channel after its CLOSE.

paramiko builds a message under the channel's lock and sends it outside, so that data or EOF of one thread can
follow the CLOSE with which another answered the server. OpenSSH then ends the whole connection ("packet referred
to nonexistent channel"): a command's own, or that of a jump host with every node behind it. Holding a lock
while sending would stop the connection's thread in a key exchange; so a CLOSE waits for who is sending instead.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any


class Order:
    """Who is sending on one channel, and the CLOSE that waits for them."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._sending = 0
        self._close: Callable[[], None] | None = None

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Send inside; the last one out sends the CLOSE that came meanwhile."""
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
        """Run what sends the CLOSE, now or when nobody is sending any more."""
        with self._lock:
            now = self._sending == 0
            if not now:
                self._close = close
        if now:
            close()
            return
        # Whoever waits for room in the window must stop waiting, or would wait for ever.
        with self._channel.lock:
            self._channel.eof_sent = True
            self._channel.out_buffer_cv.notify_all()
