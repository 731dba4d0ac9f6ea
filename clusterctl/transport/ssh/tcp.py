"""Open TCP connections to nodes: one deadline for all addresses of a name, and detection of dead peers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from clusterctl.transport.base import FailureKind
from clusterctl.transport.ssh.failure import failed
from clusterctl.transport.ssh.target import Target

# Seconds until the connection to an unreachable peer (power, cable) is given up, a delay that an operator accepts.
_DEAD_PEER_S = 30
_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}


def connected(target: Target, hold: Callable[[socket.socket], None]) -> socket.socket:
    """Return a connected socket; all addresses of the name share one deadline.

    An address that does not answer leaves time for the following ones, so that an unreachable IPv6 address does not
    make the connection fail.
    """
    deadline = time.monotonic() + target.connect_timeout_s
    try:
        found = socket.getaddrinfo(target.host, target.port, _FAMILIES[target.family], socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else "not a valid host name"
        raise failed(
            target,
            FailureKind.DNS,
            f"its address cannot be resolved: {reason}",
            "check the name and this machine's DNS, or set the node's 'address' in the inventory",
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
        # macOS has other names for some of these; without them a controller detects a dead node later.
        if hasattr(socket, option):
            sock.setsockopt(level, getattr(socket, option), value)
