"""TCP connections to nodes: one deadline over all addresses of a name, and a dead peer noticed in time."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from clusterctl.transport.base import FailureKind
from clusterctl.transport.connect_failure import failed
from clusterctl.transport.ssh_config import Target

# A peer that vanished (power, cable) is given up after about as long as a patient person waits.
_DEAD_PEER_S = 30


def connected(target: Target, hold: Callable[[socket.socket], None]) -> socket.socket:
    """Return a connected socket; every address that the name has shares one deadline."""
    deadline = time.monotonic() + target.connect_timeout_s
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else "it is no host name"
        raise failed(
            target,
            FailureKind.DNS,
            f"its address cannot be resolved: {reason}",
            "mend 'address' in the inventory",
        ) from None
    problem: OSError = TimeoutError()
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            hold(sock)
            sock.settimeout(max(0.001, deadline - time.monotonic()))
            sock.connect(address)
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            _tune(sock)
            return sock
    raise problem


def _tune(sock: socket.socket) -> None:
    for level, option, value in (
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", _DEAD_PEER_S // 2),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", _DEAD_PEER_S * 1000),
    ):
        # macOS has other names for some of these; a controller without them notices a dead node later.
        if hasattr(socket, option):
            sock.setsockopt(level, getattr(socket, option), value)
