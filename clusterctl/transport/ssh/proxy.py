"""Connect to a server through the command of ProxyCommand: its input and output are one end of a socket pair."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

from clusterctl.text.secret.scrub import scrubbed
from clusterctl.transport.base import FailureKind, TransportError
from clusterctl.transport.ssh.failure import failed, shown
from clusterctl.transport.ssh.target import Target
from clusterctl.transport.sudo import PASSWORD_VARIABLE

_GRACE_S = 0.5
_KEPT_BYTES = 4096


def shell_argv(command: str) -> tuple[str, ...]:
    """Return the command line that runs a command of ssh_config: with the user's shell, as ssh does."""
    return (os.environ.get("SHELL") or "/bin/sh", "-c", command)


class ProxySocket(socket.socket):
    """The controller's end of a pair whose other end is the command. ``close`` ends the command."""

    def __init__(self, end: socket.socket, process: subprocess.Popen[bytes]) -> None:
        super().__init__(fileno=end.detach())
        self._process = process
        self._ended = False
        self._wrote = bytearray()
        # A command that writes many messages would stop if they were not read.
        threading.Thread(target=self._listen, name="clusterctl-proxy-command", daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while data := os.read(stream.fileno(), _KEPT_BYTES):
                self._wrote += data
                del self._wrote[:-_KEPT_BYTES]

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return data of the command; note its end."""
        with self._noting_the_end():
            data = super().recv(size, flags)
        self._ended = self._ended or not data
        return data

    def send(self, data: Any, flags: int = 0) -> int:
        """Pass data to the command; note its end."""
        with self._noting_the_end():
            return super().send(data, flags)

    @contextlib.contextmanager
    def _noting_the_end(self) -> Iterator[None]:
        try:
            yield
        except ConnectionError:
            self._ended = True
            raise

    def problem(self, target: Target) -> TransportError | None:
        """Return the error of a command that ended by itself with a non-zero status; None for any other."""
        status = self._status() if self._ended else None
        if not status:
            return None
        said = scrubbed(" ".join(bytes(self._wrote).decode(errors="replace").split()))[-300:] or "nothing"
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return failed(
            target,
            FailureKind.UNREACHABLE,
            f"its ProxyCommand {how}; it wrote: {said}",
            f"run the command by hand, and fix it in ssh_config: {shown(target.proxy_command or '')}",
        )

    def close(self) -> None:
        """Close the socket and end the command with its children; safe to call twice."""
        super().close()
        # A command that has closed its end is about to exit, and its own status is worth knowing.
        status = self._status() if self._ended else self._process.poll()
        for sent in (signal.SIGHUP, signal.SIGKILL):
            if status is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, sent)
                status = self._status()

    def _status(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_GRACE_S)
        return None


def connected(target: Target, command: str, hold: Callable[[socket.socket], None]) -> ProxySocket:
    """Start the ProxyCommand of a target and return the socket to it; ``hold`` receives the socket."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                shell_argv(command if command.startswith("exec ") else f"exec {command}"),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                # Ctrl-C ends the run, which closes the connection first.
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if name != PASSWORD_VARIABLE},
            )
        except OSError as error:
            ours.close()
            raise failed(
                target,
                FailureKind.ERROR,
                f"its ProxyCommand cannot be started: {error.strerror}",
                f"check $SHELL and the command in ssh_config: {shown(command)}",
            ) from None
    sock = ProxySocket(ours, process)
    try:
        hold(sock)
        sock.settimeout(target.connect_timeout_s)
    except BaseException:
        sock.close()
        raise
    return sock
