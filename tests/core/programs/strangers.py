"""Connect as a crowd of strangers. argv: a kind, how many for each port, and ports of 127.0.0.1.

Prints "here" once all have connected, and goes on until standard input ends, or for a minute. The kinds:

silent
    connect once and send nothing; a dropped one does not come back.
drip
    the same, and send a byte of a plausible hello now and then.
again
    connect again and again: each sends nothing, and leaves when 200 others have come.
"""

from __future__ import annotations

import collections
import itertools
import resource
import select
import socket
import struct
import sys
import time

SILENT, DRIP, AGAIN = "silent", "drip", "again"
LONGEST_S = 60
DRIPS = b"CCR2" + struct.pack("<Iiiiiq", 1, 1, 0, 3, 0, 60000)
DRIP_PAUSE_S = 0.2
AT_ONCE = 200
"""Connections that strangers of the kind `again` keep in one process."""

kind, count, ports = sys.argv[1], int(sys.argv[2]), [int(port) for port in sys.argv[3:]]
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
needed = max(count * len(ports), AT_ONCE) + 100
resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))
deadline = time.monotonic() + LONGEST_S


def connect(port: int) -> socket.socket:
    stranger = socket.socket()
    stranger.setblocking(False)
    # Leaves by a reset, so that ports do not linger by the thousand.
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stranger.connect_ex(("127.0.0.1", port))
    return stranger


def go_on(pause_s: float) -> bool:
    return not select.select([sys.stdin], [], [], pause_s)[0] and time.monotonic() < deadline


if kind == AGAIN:
    print("here", flush=True)
    there: collections.deque[socket.socket] = collections.deque()
    for number, port in enumerate(itertools.cycle(ports)):
        there.append(connect(port))
        if len(there) > AT_ONCE:
            there.popleft().close()
        if number % AT_ONCE == 0 and not go_on(0):
            break
else:
    crowd = [connect(port) for _ in range(count) for port in ports]
    print("here", flush=True)
    drips = iter(DRIPS)
    while go_on(DRIP_PAUSE_S):
        byte = bytes([next(drips, 0)]) if kind == DRIP else b""
        for stranger in crowd if byte else ():
            try:
                stranger.send(byte)
            except OSError:
                pass  # not connected yet, or dropped
