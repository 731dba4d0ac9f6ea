"""Start N processes on one machine without MPI, with RANK and WORLD_SIZE set and their output tagged.

This file uses only the standard library, because it runs by path: ``python local_spawn.py --mark M -np N -- program
...``. Each line of a rank is written as ``[M,rank]<stdout>:`` or ``<stderr>:`` and the text. The first rank that fails
ends the others; a line on stderr names it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import IO

GRACE_S = 3.0


# Longer lines are split, so that a line without an end cannot fill the memory.
_LINE_BYTES = 1 << 16


def copy(stream: IO[bytes], tag: bytes, sink: IO[bytes], lock: threading.Lock) -> None:
    """Copy a rank's lines to the sink, each line whole and after its tag."""
    while line := stream.readline(_LINE_BYTES):
        with lock:
            sink.write(tag + line + (b"" if line.endswith(b"\n") else b"\n"))
            sink.flush()


def start(program: list[str], rank: int, size: int) -> subprocess.Popen[bytes]:
    """Start one rank in a process group of its own."""
    env = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(size),
        "PYTHONUNBUFFERED": "1",
    }
    return subprocess.Popen(
        program,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End all ranks: SIGTERM first, SIGKILL after the grace time."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until and any(process.poll() is None for process in processes):
            time.sleep(0.02)


def watch(processes: list[subprocess.Popen[bytes]]) -> int:
    """Wait until all ranks succeed (return -1) or one fails (return its rank)."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [rank for rank, code in enumerate(codes) if code not in (None, 0)]
        if failed:
            # Of several ranks that ended at once, the one killed by a signal is the cause: the others lost their peer.
            return min(failed, key=lambda rank: (codes[rank] or 0) >= 0)
        if all(code == 0 for code in codes):
            return -1
        time.sleep(0.02)


def main(argv: list[str] | None = None) -> int:
    """Run N ranks of a program; return 0, the failed rank's status, or 128 plus its signal number."""
    parser = argparse.ArgumentParser(prog="local_spawn")
    parser.add_argument("--mark", required=True, help="random text for the tags; ranks do not receive it")
    parser.add_argument("-np", type=int, required=True)
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args(argv)

    def stop(_number: int, _frame: FrameType | None) -> None:
        # timeout(1) forwards the signal that its group has received: the second one must not interrupt end().
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, stop)
    processes: list[subprocess.Popen[bytes]] = []
    threads: list[threading.Thread] = []
    lock = threading.Lock()
    try:
        for rank in range(arguments.np):
            try:
                process = start(arguments.program, rank, arguments.np)
            except OSError as error:
                sys.stderr.write(f"local_spawn: rank {rank} cannot start {arguments.program[0]}: {error}\n")
                return 127
            processes.append(process)
            for name, source, sink in (
                ("stdout", process.stdout, sys.stdout.buffer),
                ("stderr", process.stderr, sys.stderr.buffer),
            ):
                if source is not None:
                    tag = f"[{arguments.mark},{rank}]<{name}>:".encode()
                    thread = threading.Thread(target=copy, args=(source, tag, sink, lock), daemon=True)
                    thread.start()
                    threads.append(thread)
        failed = watch(processes)
        code = processes[failed].returncode if failed >= 0 else 0
        if failed >= 0:
            fate = f"exited on signal {-code}" if code < 0 else f"exited with status {code}"
            with lock:
                who = f"rank {failed} (pid {processes[failed].pid}) on {socket.gethostname()}"
                sys.stderr.write(f"local_spawn: {who} {fate}\n")
                sys.stderr.flush()
    finally:
        end(processes)
        for thread in threads:
            thread.join(timeout=GRACE_S)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    raise SystemExit(main())
