"""A launcher for one machine without MPI: N processes with RANK and WORLD_SIZE set, their output tagged.

Standard library only: it runs by file path, as ``python local_spawn.py --mark M -np N -- program ...``. Every line of
a rank leaves as ``[M,rank]<stdout>:`` or ``<stderr>:`` and the line; the first rank that fails ends the others and is
named on stderr.
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


# A longer line is cut: one without an end must not fill the memory.
_LINE_BYTES = 1 << 16


def copy(stream: IO[bytes], tag: bytes, sink: IO[bytes], lock: threading.Lock) -> None:
    """Copy a rank's lines to the sink, each behind its tag and whole."""
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
    """End all ranks: a request first, SIGKILL after the grace time."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until and any(process.poll() is None for process in processes):
            time.sleep(0.02)


def watch(processes: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all ranks, or for the first that fails; return its rank, or -1."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [rank for rank, code in enumerate(codes) if code not in (None, 0)]
        if failed:
            # Of several seen to fall at once, one killed by a signal fell first: the others lost their peer.
            return min(failed, key=lambda rank: (codes[rank] or 0) >= 0)
        if all(code == 0 for code in codes):
            return -1
        time.sleep(0.02)


def main(argv: list[str] | None = None) -> int:
    """Run N ranks of a program; return 0, the failed rank's status, or 128 and its signal."""
    parser = argparse.ArgumentParser(prog="local_spawn")
    parser.add_argument("--mark", required=True, help="stands in the tags; no rank is given it")
    parser.add_argument("-np", type=int, required=True)
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args(argv)

    def stop(_number: int, _frame: FrameType | None) -> None:
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
