"""Use this machine as a node: each command is a child process in its own process group."""

from __future__ import annotations

import contextlib
import getpass
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping

from clusterctl.inventory.model import Become, Node
from clusterctl.transport import files
from clusterctl.transport.base import Completed, Failure, FailureKind, TransportError
from clusterctl.transport.command import checked_argv, shell_text
from clusterctl.transport.exchange import MAX_OUTPUT_BYTES, Exchange, token
from clusterctl.transport.sudo import PASSWORD_VARIABLE, SudoPassword, as_root_text

_CHUNK_BYTES = 65536
_TERMINATE_GRACE_S = 0.5
# After its leader has ended, a command's background children may still hold its output open.
_LINGER_S = 0.5


class LocalTransport(files.ShellFiles):
    """The Transport of a node with ``connection: local``; one command at a time, ``close`` from any thread."""

    def __init__(
        self, node: Node, *, password: SudoPassword | None = None, max_output_bytes: int = MAX_OUTPUT_BYTES
    ) -> None:
        self._node = node
        self._password = None if password is None else password.of(getpass.getuser(), node.name)
        self._limit = max_output_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._cut = False

    @property
    def node(self) -> str:
        return self._node.name

    def open(self) -> None:
        """Do nothing, because this machine needs no connection."""

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
        """Run one command to its end; see ``Transport.run``."""

        def once() -> Completed:
            return self._run(argv, stdin, timeout_s, as_root, env, on_line, max_output_bytes, keep_bytes)

        return once() if self._password is None else self._password.retried(once)

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
        words = checked_argv(argv, env)
        needs_sudo = as_root and (os.geteuid() != 0 or self._node.become is Become.SUDO)
        marker = prompt = None
        if needs_sudo:
            marker = token()
            prompt = token() if self._password is not None and self._password.available else None
            inner = shell_text(words, marker=marker, timeout_s=timeout_s)
            words = ("sh", "-c", as_root_text(inner, become=self._node.become, user=None, prompt=prompt))
        exchange = Exchange(
            f"{self.node} (this machine)",
            argv,
            stdin=stdin,
            timeout_s=timeout_s,
            on_line=on_line,
            marker=marker,
            prompt=prompt,
            password=self._password,
            may_need_sudo=needs_sudo,
            max_output_bytes=self._limit if max_output_bytes is None else max_output_bytes,
            keep_bytes=keep_bytes,
        )
        return self._converse(words, exchange)

    def _converse(self, words: tuple[str, ...], exchange: Exchange) -> Completed:
        try:
            with self._lock:
                if self._cut:
                    raise self._cut_off()
                process = self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    # SSH does not pass the environment on; here at least the password must not be passed.
                    env={name: value for name, value in os.environ.items() if name != PASSWORD_VARIABLE},
                )
        except OSError as error:
            # Exit statuses as in a shell: 127 command not found, 126 not executable.
            exchange.started = True
            exchange.feed_stderr(f"{words[0]}: {error.strerror}\n".encode())
            return exchange.completed(127 if isinstance(error, FileNotFoundError) else 126)
        try:
            self._pump(process, exchange)
            status = process.wait()
            if self._cut:
                raise self._cut_off()
            return exchange.completed(status if status >= 0 else 128 - status)
        finally:
            exchange.close()
            with self._lock:
                self._process = None
            _end(process)

    def _cut_off(self) -> TransportError:
        return TransportError(
            Failure(FailureKind.LOST, f"{self.node} (this machine): the run was interrupted")
        )

    def _pump(self, process: subprocess.Popen[bytes], exchange: Exchange) -> None:
        assert process.stdin and process.stdout and process.stderr
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, exchange.feed_stdout)
            selector.register(process.stderr, selectors.EVENT_READ, exchange.feed_stderr)
            pending, ends, listening = memoryview(b""), False, 2
            os.set_blocking(process.stdin.fileno(), False)
            lingered_s = 0.0
            while listening:
                more, last = exchange.take_input()
                pending, ends = memoryview(bytes(pending) + more) if more else pending, ends or last
                pending = _feed(process, pending, ends, selector)
                exited = process.poll() is not None
                events = selector.select(min(exchange.wait_s, _LINGER_S / 5 if exited else 0.5))
                if exited and not events:
                    lingered_s += _LINGER_S / 5
                    if lingered_s >= _LINGER_S:
                        return
                for key, _ in events:
                    if key.data is None:
                        continue
                    data = os.read(key.fd, _CHUNK_BYTES)
                    if data:
                        key.data(data)
                    else:
                        selector.unregister(key.fileobj)
                        listening -= 1
                exchange.check()
        while process.poll() is None:
            exchange.check()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(exchange.wait_s, 0.5))

    @property
    def is_open(self) -> bool:
        return False

    @property
    def host_key(self) -> str | None:
        return None

    def close(self) -> None:
        """End the running command, if any; as over SSH, no other can start afterwards."""
        with self._lock:
            process, self._cut = self._process, True
        if self._password is not None:
            self._password.withdraw()
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _feed(
    process: subprocess.Popen[bytes], pending: memoryview, ends: bool, selector: selectors.BaseSelector
) -> memoryview:
    """Write as much as the command accepts now and return the rest; watch for room while there is a rest."""
    stdin = process.stdin
    if stdin is None or stdin.closed:
        return memoryview(b"")
    try:
        if pending:
            pending = pending[os.write(stdin.fileno(), pending) :]
    except BlockingIOError:
        pass
    except BrokenPipeError:
        pending, ends = memoryview(b""), True
    watched = stdin.fileno() in selector.get_map()
    if pending and not watched:
        selector.register(stdin, selectors.EVENT_WRITE, None)
    elif not pending and watched:
        selector.unregister(stdin)
    if not pending and ends:
        stdin.close()
    return pending


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command's process group if it still runs, and close its pipes."""
    if process.poll() is None:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            # A command that runs as root through sudo cannot be signalled; its own guard ends it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, sent)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_TERMINATE_GRACE_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
