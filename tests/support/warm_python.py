"""Python programs that begin with torch already imported: forked from a server that has imported it once.

Importing torch takes 2.5 s of a processor, most of what a test of two short ranks costs. Everything else is as in a
process of its own: arguments, environment, working directory, outputs, exit code, and the interpreter's whole end.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn

_PRELOADED = (
    "torch",
    "torch._dynamo",  # which every optimizer imports
    "torch.distributed",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.nn.parallel",
)
_READ_AT_IMPORT = ("LD_", "PYTHON", "OMP_", "MKL_", "TORCH_", "GLOO_DEVICE")
"""Beginnings of variables that have taken effect in the server already: a program with others is started in full."""
_THREADS = {"OMP_NUM_THREADS": "1"}
_LARGEST_REQUEST = 1 << 20


@dataclass
class WarmProcess:
    """As much of ``subprocess.Popen`` as tests of ranks use; outputs are text."""

    pid: int
    stdout: IO[str]
    stderr: IO[str] | None
    _server: _Server = field(repr=False)
    returncode: int | None = None
    _read: dict[str, bytearray] = field(
        default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()}, repr=False
    )

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs; below 0 the signal that ended it."""
        self._server.await_end(self, 0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended."""
        self._server.await_end(self, timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both outputs to their ends, wait, and return them."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as open_:
            for name in self._read:
                stream: IO[str] | None = getattr(self, name)
                if stream is not None and not stream.closed:
                    open_.register(stream, selectors.EVENT_READ, name)
            while open_.get_map():
                left = None if deadline is None else deadline - time.monotonic()
                ready = open_.select(left) if left is None or left > 0 else []
                if not ready:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
                for key, _ in ready:
                    piece = os.read(key.fd, 65536)
                    self._read[key.data] += piece
                    if not piece:
                        open_.unregister(key.fileobj)
                        getattr(self, key.data).close()
        self.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return self._read["stdout"].decode(), self._read["stderr"].decode()


class _Server:
    """The process that has imported torch, seen from a test."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            (sys.executable, __file__, str(theirs.fileno())),
            env={**os.environ, **_THREADS}, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        # Only those that run: the kernel gives the number of one that has ended to another.
        self._running: dict[int, WarmProcess] = {}
        atexit.register(self.close)

    def close(self) -> None:
        """End the server, which ends what it has forked."""
        self._socket.close()
        self._process.wait(60)

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], directory: str, merged: bool
    ) -> WarmProcess:
        request = json.dumps([list(arguments), dict(environment), directory]).encode()
        out_read, out_write = os.pipe()
        err_read, err_write = (-1, out_write) if merged else os.pipe()
        try:
            self._socket.sendmsg(
                [request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [out_write, err_write]))]
            )
        finally:
            os.close(out_write)
            if not merged:
                os.close(err_write)
        pid = self._next("pid", 120)
        assert pid is not None, "the server that has torch imported has not answered within 120 s"
        process = WarmProcess(pid, os.fdopen(out_read), None if merged else os.fdopen(err_read), self)
        self._running[pid] = process
        return process

    def await_end(self, process: WarmProcess, timeout: float | None) -> None:
        """Wait until the exit code of a process is known, at most so many seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while process.returncode is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if self._next("end", left) is None:
                return

    def _next(self, wanted: str, timeout: float | None) -> int | None:
        """Receive messages until one of the kind that is wanted; ends of processes are kept whatever is wanted."""
        while select.select([self._socket], [], [], timeout)[0]:
            message = self._socket.recv(4096)
            assert message, f"the server that has torch imported has ended: {self._process.wait(10)}"
            kind, pid, code = json.loads(message)
            if kind == "end" and (ended := self._running.pop(pid, None)):
                ended.returncode = code
            if kind == wanted:
                return int(pid)
        return None


_servers: list[_Server] = []


def start(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    merged: bool = False,
) -> WarmProcess | subprocess.Popen[str]:
    """Start ``(sys.executable, ...)`` with torch imported, or in full where ``env`` has what an import would read.

    :param merged: standard error goes where standard output goes.
    """
    assert command[0] == sys.executable, command
    if any(_is_late(name, value) for name, value in env.items()):
        return subprocess.Popen(
            tuple(command), env=dict(env), cwd=cwd, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        )  # fmt: skip
    if not _servers:
        _servers.append(_Server())
    return _servers[0].start(command[1:], env, os.fspath(cwd or Path.cwd()), merged)


def _is_late(name: str, value: str) -> bool:
    return name.startswith(_READ_AT_IMPORT) and value != {**os.environ, **_THREADS}.get(name)


def run(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    timeout: float,
    cwd: str | os.PathLike[str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run such a program to its end, as ``subprocess.run`` with both outputs captured."""
    process = start(command, env, cwd=cwd)
    try:
        output, errors = process.communicate(timeout=timeout)
    finally:
        process.kill()
        code = process.wait()
    return subprocess.CompletedProcess(tuple(command), code, output, errors)


def _serve(connection: socket.socket) -> list[str]:
    """Fork a process for each request and report its end; return in the forked process, with its arguments."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: set[int] = set()
    while True:
        ready, _, _ = select.select([connection, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            for pid, code in list(_reaped(running)):
                running.discard(pid)
                with contextlib.suppress(OSError):
                    connection.send(json.dumps(["end", pid, code]).encode())
        if connection not in ready:
            continue
        request, descriptors, _, _ = socket.recv_fds(connection, _LARGEST_REQUEST, 2)
        if not request:
            _end_all(running)
        pid = os.fork()
        if pid:
            running.add(pid)
            for descriptor in descriptors:
                os.close(descriptor)
            connection.send(json.dumps(["pid", pid, 0]).encode())
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(woken)
        os.close(wake)
        connection.close()
        arguments, environment, directory = json.loads(request)
        os.dup2(descriptors[0], 1)
        os.dup2(descriptors[1], 2)
        for descriptor in descriptors:
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)
        return list(arguments)


def _reaped(running: set[int]) -> Iterator[tuple[int, int]]:
    for pid in running:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            yield pid, os.waitstatus_to_exitcode(status)


def _end_all(running: set[int]) -> NoReturn:
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    sys.exit(0)


def _become(arguments: list[str]) -> None:
    """Run what follows ``python`` on a command line, as it does."""
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        exec(compile(arguments[1], "<string>", "exec"), vars(sys.modules["__main__"]))
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).absolute().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    import importlib

    for _name in _PRELOADED:
        importlib.import_module(_name)
    # What torch made stays out of collections, whose marks would copy its memory in each process: at the end of the
    # interpreter, too, that took a second of a processor.
    gc.freeze()
    _become(_serve(socket.socket(fileno=int(sys.argv[1]))))
