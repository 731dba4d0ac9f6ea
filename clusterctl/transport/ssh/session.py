"""Open SSH connections: the way to the node, its host key, the login; and hold what all connections of a run share."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from clusterctl import log
from clusterctl.inventory.model import Node
from clusterctl.text.openssh.known_hosts import host_name
from clusterctl.transport.base import Failure, TransportError
from clusterctl.transport.exchange import MAX_OUTPUT_BYTES
from clusterctl.transport.paramiko_internals import WIRE_ERRORS, Wire, paramiko
from clusterctl.transport.ssh import config, failure, login, proxy, tcp
from clusterctl.transport.ssh.host_keys import HostKeyPolicy, Remedies, ShownKey
from clusterctl.transport.ssh.jumps import Jumps
from clusterctl.transport.ssh.keys import KeyRing
from clusterctl.transport.ssh.target import Target, resolve
from clusterctl.transport.sudo import SudoPassword

_log = log.get(__name__)
_KEEPALIVE_S = 30
_LOGIN_TIMEOUT_S = 30.0
_DROPPED_TRIES = 6
_DROPPED_PAUSE_S = 0.2


def _shown(target: Target, wire: Wire) -> ShownKey:
    key = wire.get_remote_server_key()
    host, port = target.key_place
    return ShownKey(
        where=target.where,
        host=host,
        port=port,
        is_alias=target.host_key_alias is not None,
        node=None if target.is_jump else target.node,
        key_type=key.get_name(),
        key=key.get_base64(),
        files=target.known_hosts,
        hash_name=target.hash_known_hosts,
        revoked_in=target.revoked_host_keys,
    )


def _was_dropped(error: BaseException) -> bool:
    """Return whether the server closed the connection before SSH began, as sshd does beyond MaxStartups.

    Sources: sshd_config(5); RFC 4254 5.1 for a jump host without free channels (resource shortage).
    """
    if isinstance(error, paramiko.ChannelException):
        return error.code == 4
    if not isinstance(error, paramiko.SSHException) or "banner" not in str(error):
        return isinstance(error, (ConnectionResetError, BrokenPipeError))
    return not isinstance(error.__cause__ or error.__context__, TimeoutError) and "timed out" not in str(
        error
    )


class SshSession:
    """The state that all SSH connections of a run share: ssh_config, host keys, private keys, jump hosts."""

    def __init__(
        self,
        *,
        accept_new_host_keys: bool,
        connect_timeout_s: float | None,
        password: SudoPassword,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        remedies: Remedies | None = None,
    ) -> None:
        self.policy = HostKeyPolicy(accept_new=accept_new_host_keys, remedies=remedies)
        self.ring = KeyRing(login.load_key)
        self.password = password
        self.max_output_bytes = max_output_bytes
        self.jumps: Jumps[Wire] = Jumps(
            lambda target: self.open(target, lambda _: None), Wire.end, Wire.is_active
        )
        self._unreached: dict[Target, Failure] = {}
        self._targets: dict[str, tuple[Node, Target]] = {}
        self._ending = threading.Event()
        self._connect_timeout_s = connect_timeout_s
        self._lookup = config.lookup_in(config.config_files())

    def target(self, node: Node) -> Target:
        """Return where a node is and how to log in there; it is resolved once."""
        known = self._targets.get(node.name)
        if known is None or known[0] is not node:
            known = self._targets[node.name] = node, resolve(node, self._lookup, self._connect_timeout_s)
        return known[1]

    def open(self, target: Target, hold: Callable[[socket.socket], None], *, outside: bool = False) -> Wire:
        """Connect, verify the host key and log in; ``hold`` receives the socket, so that other threads can close it.

        A server with too many pending logins drops some at random, so the attempt is repeated with growing pauses.
        ``outside``: a server that does not answer at once is awaited outside the slot of the fan-out.
        """
        missed = self._unreached.pop(target, None)
        if missed is not None:
            raise TransportError(missed)
        return self._opened(target, hold, outside, logs_in=True)

    def presented(self, target: Target, hold: Callable[[socket.socket], None]) -> ShownKey:
        """Return the host key that a server presents, not verified; nothing is sent to it after the key exchange.

        If that fails, the next ``open`` of this server fails with the same reason instead of waiting once more.
        """
        try:
            wire = self._opened(target, hold, True, logs_in=False)
        except TransportError as error:
            self._unreached[target] = error.failure
            raise
        try:
            return _shown(target, wire)
        finally:
            wire.end()
            if target.jump:
                self.jumps.release(target.jump)

    def _opened(
        self, target: Target, hold: Callable[[socket.socket], None], outside: bool, *, logs_in: bool
    ) -> Wire:
        gateway = self.jumps.acquire(target, target.jump) if target.jump else None
        give_up = time.monotonic() + target.connect_timeout_s
        try:
            for attempt in range(1, _DROPPED_TRIES + 1):
                began = time.monotonic()
                try:
                    wire = self._connected(target, gateway, hold, outside, logs_in=logs_in)
                    done = "logged in" if logs_in else "host key read"
                    _log.info("%s: %s after %.2f s", target.where, done, time.monotonic() - began)
                    return wire
                except WIRE_ERRORS as error:
                    now = time.monotonic()
                    pause_s = _DROPPED_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
                    again = attempt < _DROPPED_TRIES and now + pause_s < give_up
                    if again and _was_dropped(error):
                        _log.info(
                            "%s: dropped at login attempt %d; retry in %.1f s", target.where, attempt, pause_s
                        )
                        if not self._ending.wait(pause_s):
                            continue
                    raise failure.explain(
                        target,
                        error,
                        now - began,
                        refused_by_jump=isinstance(error, paramiko.ChannelException),
                        incompatible=isinstance(error, paramiko.ssh_exception.IncompatiblePeer),
                    ) from None
            raise AssertionError("the last attempt returns or raises")
        except BaseException:
            if target.jump:
                self.jumps.release(target.jump)
            raise

    def _connected(
        self,
        target: Target,
        gateway: Wire | None,
        hold: Callable[[socket.socket], None],
        outside: bool,
        *,
        logs_in: bool,
    ) -> Wire:
        sock: Any
        if gateway is not None:
            sock = gateway.way_to(target.host, target.port, target.connect_timeout_s)
        elif target.proxy_command is not None:
            sock = proxy.connected(target, target.proxy_command, hold)
        else:
            sock = tcp.connected(target, hold, outside=outside)
        # A server that has sent its greeting is alive, and may be slow because of many simultaneous logins.
        patience_s = max(_LOGIN_TIMEOUT_S, target.connect_timeout_s)
        wire: Wire | None = None
        try:
            name = host_name(*target.key_place)
            wire = Wire(sock, self.policy.known(target.known_hosts).key_types(name))
            wire.banner_timeout = target.connect_timeout_s
            wire.channel_timeout = target.connect_timeout_s
            wire.negotiate(target.connect_timeout_s, target.connect_timeout_s + patience_s)
            if logs_in:
                self.policy.verify(_shown(target, wire))
                login.log_in(wire, target, self.ring, patience_s)
                wire.settle(_KEEPALIVE_S)
        except BaseException as error:
            problem = None
            if isinstance(sock, proxy.ProxySocket) and isinstance(error, WIRE_ERRORS):
                problem = sock.problem(target)
            if wire is not None:
                wire.end()
            sock.close()
            if problem is not None:
                raise problem from None
            raise
        return wire

    def close(self) -> None:
        """Close the connections to jump hosts, and end pauses before another attempt."""
        self._ending.set()
        self.jumps.close()
