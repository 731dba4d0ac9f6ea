"""A time server for guests that reach no other: this machine's clock, by SNTP (RFC 4330) on one address and port."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator

NTP_EPOCH_OFFSET_S = 2_208_988_800
"""From 1900, where NTP counts from, to 1970."""


def _stamp(seconds: float) -> bytes:
    whole = int(seconds)
    return struct.pack("!II", (whole + NTP_EPOCH_OFFSET_S) & 0xFFFFFFFF, int((seconds - whole) * 2**32))


def answer(request: bytes, received_s: float, sent_s: float) -> bytes | None:
    """Return the server's packet for a client's; None for what is not a client's request."""
    if len(request) < 48 or request[0] & 7 != 3:
        return None
    version = request[0] & 0x38
    # No leap second, mode 4 (server); stratum 2; a precision of 2^-20 s; root delay and dispersion of a local clock.
    head = struct.pack("!BBbb", version | 4, 2, 6, -20) + struct.pack("!II4s", 0, 64, bytes((127, 0, 0, 1)))
    return head + _stamp(received_s) + request[40:48] + _stamp(received_s) + _stamp(sent_s)


@contextlib.contextmanager
def serving(address: str, port: int = 123) -> Iterator[None]:
    """Answer clients until the block ends."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, port))
        server.settimeout(0.5)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    request, client = server.recvfrom(512)
                except TimeoutError:
                    continue
                reply = answer(request, time.time(), time.time())
                if reply is not None:
                    server.sendto(reply, client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
