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
_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}


def connected(target: Target, hold: Callable[[socket.socket], None]) -> socket.socket:
    """Return a connected socket; every address that the name has shares one deadline.

    One that does not answer leaves time for those behind it: an IPv6 address without a way there is no reason to fail.
    """
    deadline = time.monotonic() + target.connect_timeout_s
    try:
        found = socket.getaddrinfo(target.host, target.port, _FAMILIES[target.family], socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else "it is no host name"
        raise failed(
            target,
            FailureKind.DNS,
            f"its address cannot be resolved: {reason}",
            "mend 'address' in the inventory",
        ) from None
    problem: OSError = TimeoutError()
    for left, (family, kind, protocol, _, address) in zip(range(len(found), 0, -1), found, strict=True):
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as error:  # a kernel without IPv6
            problem = error
            continue
        try:
            hold(sock)
            sock.settimeout(max(0.001, (deadline - time.monotonic()) / left))
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
