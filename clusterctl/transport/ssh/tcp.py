"""Open TCP connections to nodes: one deadline for all addresses of a name, and detection of dead peers."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from clusterctl.transport.base import FailureKind
from clusterctl.transport.fanout import back_in_slot, outside_slot
from clusterctl.transport.ssh.failure import failed
from clusterctl.transport.ssh.target import Target

# Seconds until the connection to an unreachable peer (power, cable) is given up, a delay that an operator accepts.
_DEAD_PEER_S = 30
_AT_ONCE_S = 0.3
"""Seconds that a node in a slot of the fan-out has to accept a connection."""
_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}


def connected(
    target: Target, hold: Callable[[socket.socket], None], *, outside: bool = False
) -> socket.socket:
    """Return a connected socket; all addresses of the name share one deadline.

    An address that does not answer leaves time for the following ones, so that an unreachable IPv6 address does not
    make the connection fail. ``outside``: an address that does not answer at once is awaited outside the slot of the
    fan-out.
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
            _connect(sock, address, max(0.001, (deadline - time.monotonic()) / left), outside=outside)
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            if outside:
                back_in_slot()
            _tune(sock)
            return sock
    raise problem


def _connect(sock: socket.socket, address: Any, limit_s: float, *, outside: bool) -> None:
    at_once_s = min(limit_s, _AT_ONCE_S) if outside else limit_s
    sock.settimeout(at_once_s)
    try:
        sock.connect(address)
    except TimeoutError:
        if at_once_s == limit_s:
            raise
    else:
        return
    with outside_slot():
        poller = select.poll()
        poller.register(sock, select.POLLOUT)
        if not poller.poll((limit_s - at_once_s) * 1000):
            raise TimeoutError
        if error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))


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
