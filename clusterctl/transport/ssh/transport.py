"""Run commands on one node over SSH; the connection is opened at the first command and reused."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from clusterctl.inventory.model import Become, Node
from clusterctl.transport import files
from clusterctl.transport.base import Completed, FailureKind, TransportError
from clusterctl.transport.command import checked_argv, end_text, for_login_shell, shell_text
from clusterctl.transport.exchange import Exchange, token
from clusterctl.transport.paramiko_internals import WIRE_ERRORS, Wire, orderly, send_exec
from clusterctl.transport.ssh import channel as channels
from clusterctl.transport.ssh.failure import failed
from clusterctl.transport.ssh.host_keys import ShownKey
from clusterctl.transport.ssh.session import SshSession
from clusterctl.transport.ssh.target import Target
from clusterctl.transport.sudo import as_root_text

_END_TIMEOUT_S = 2.0
_GONE: tuple[type[Exception], ...] = (channels.ChannelClosed, *WIRE_ERRORS)


class SshTransport(files.ShellFiles):
    """The Transport of a node over SSH. One command at a time; ``close`` may be called from any thread."""

    def __init__(self, session: SshSession, node: Node) -> None:
        self._session = session
        self._node = node
        self._target = session.target(node)
        self._password = session.password.of(self._target.user, node.name)
        self._lock = threading.Lock()
        self._opened: Wire | None = None
        self._host_key: str | None = None
        self._socket: socket.socket | None = None
        self._closed = False

    @property
    def node(self) -> str:
        return self._node.name

    @property
    def is_open(self) -> bool:
        with self._lock:
            return not self._closed and self._opened is not None and self._opened.is_active()

    @property
    def host_key(self) -> str | None:
        with self._lock:
            return self._host_key

    def _hold(self, sock: socket.socket) -> None:
        with self._lock:
            self._socket = sock
            if self._closed:
                raise self._cut_off()

    def _is_closed(self) -> bool:
        with self._lock:
            return self._closed

    def _cut_off(self) -> TransportError:
        return failed(self._target, FailureKind.LOST, "the run was interrupted", None)

    @property
    def target(self) -> Target:
        """The node's address, port and user, and the jump host in front of it."""
        return self._target

    def presented_key(self, server: Target) -> ShownKey:
        """Return the host key of this node, or of a jump host in front of it; see ``SshSession.presented``."""
        try:
            return self._session.presented(server, self._hold)
        except TransportError:
            if self._is_closed():
                raise self._cut_off() from None
            raise

    @property
    def accepted_password(self) -> str | None:
        """The sudo password that a node of this run has accepted; None before."""
        return self._password.accepted

    def wire(self) -> Wire:
        """Return the open connection, logging in if it is not open; raise TransportError when that fails."""
        with self._lock:
            if self._closed:
                raise self._cut_off()
            wire = self._opened
        if wire is not None and wire.is_active():
            return wire
        self._drop()
        try:
            wire = self._session.open(self._target, self._hold, outside=True)
        except TransportError:
            if self._is_closed():
                raise self._cut_off() from None
            raise
        # ``open`` returns only after it has verified this key.
        key = wire.get_remote_server_key()
        with self._lock:
            self._opened, self._host_key = wire, f"{key.get_name()} {key.get_base64()}"
        if self._is_closed():
            self._drop()
            raise self._cut_off()
        return wire

    def open(self) -> None:
        """Connect now; see ``Transport.open``."""
        self.wire()

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        as_root: bool = False,
        env: Mapping[str, str] | None = None,
        on_line: Callable[[str], None] | None = None,
        max_output_bytes: int | None = None,
        keep_bytes: int | None = None,
    ) -> Completed:
        """Run one command to its end; see ``Transport.run``. The deadline starts when the command is sent."""
        return self._password.retried(
            lambda: self._run(argv, stdin, timeout_s, as_root, env, on_line, max_output_bytes, keep_bytes)
        )

    def _run(
        self,
        argv: tuple[str, ...],
        stdin: bytes,
        timeout_s: float | None,
        as_root: bool,
        env: Mapping[str, str] | None,
        on_line: Callable[[str], None] | None,
        max_output_bytes: int | None,
        keep_bytes: int | None,
    ) -> Completed:
        target, session, become = self._target, self._session, self._node.become
        marker = token()
        text = shell_text(checked_argv(argv, env), marker=marker, timeout_s=timeout_s)
        needs_sudo = as_root and (target.user != "root" or become is Become.SUDO)
        prompt = token() if needs_sudo and self._password.available else None
        if as_root:
            text = as_root_text(text, become=become, user=target.user, prompt=prompt)
        line = for_login_shell(text)
        wire = self.wire()
        exchange = Exchange(
            target.where,
            argv,
            stdin=stdin,
            timeout_s=timeout_s,
            on_line=on_line,
            marker=marker,
            prompt=prompt,
            password=self._password,
            may_need_sudo=needs_sudo,
            max_output_bytes=session.max_output_bytes if max_output_bytes is None else max_output_bytes,
            keep_bytes=keep_bytes,
        )
        try:
            channel = orderly(wire.open_session(timeout=min(timeout_s or math.inf, target.connect_timeout_s)))
            send_exec(channel, line)
            status = channels.converse(
                channel, exchange, lambda pid: self._end_command(wire, pid), wire.catch_up
            )
        except _GONE as error:
            if self._is_closed():
                raise self._cut_off() from None
            raise self.lost(argv[0], error) from None
        finally:
            exchange.close()
        return exchange.completed(status)

    def lost(self, program: str, error: Exception) -> TransportError:
        """Return what an error of paramiko means that ended ``program`` (a command, a file transfer)."""
        if "Timeout opening channel" in str(error):
            return failed(
                self._target, FailureKind.TIMEOUT, "it opens no session", "check the load of the node"
            )
        if self.is_open:
            reason = str(error) or "the channel was closed without a status"
            return failed(
                self._target,
                FailureKind.PROTOCOL,
                f"the server refused the command: {reason}",
                "check its sshd's log",
            )
        self._drop()
        return failed(
            self._target,
            FailureKind.LOST,
            f"the connection was lost while {program} ran",
            "check that the node is up; the command may be incomplete",
        )

    def _end_command(self, wire: Any, pid: int) -> None:
        """End a command with a second one, because OpenSSH does not deliver the signals of RFC 4254 to root's commands.

        A command that runs as another user through sudo is ended by its guard, seconds later (``command.shell_text``).
        """
        with contextlib.suppress(*WIRE_ERRORS):
            channel = wire.open_session(timeout=_END_TIMEOUT_S)
            try:
                send_exec(channel, for_login_shell(end_text(pid)))
                channel.status_event.wait(_END_TIMEOUT_S)
            finally:
                channel.close()

    def close(self) -> None:
        """Close the connection, also while another thread is connecting or waiting for a command."""
        with self._lock:
            self._closed = True
            sock = self._socket
        self._password.withdraw()
        if sock is not None:
            # shutdown wakes the reader at once; paramiko's own close would wait for the reader's next poll.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            wire, self._opened, self._socket = self._opened, None, None
        if wire is not None:
            wire.end()
            if self._target.jump:
                self._session.jumps.release(self._target.jump)
