"""Measures what the links between the ranks carry, as the file that CCORE_LINK_MATRIX names.

mpirun -np 8 python -m collective_core.link_matrix --output links.txt
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from collective_core.communicator import Communicator
from collective_core.errors import CollectiveCoreError, Result

MOST_RANKS = 64
"""As many as the library takes in a matrix."""
FIRST_BYTES = 64 * 1024
MOST_BYTES = 64 * 1024 * 1024
LONG_ENOUGH_S = 0.02
REPEATS = 5

Matrix = list[list[float]]
"""By sender, then by receiver: 10^9 bytes per second; 0 from a rank to itself."""


def measure(comm: Communicator) -> Matrix:
    """Measure the links of all pairs, one after the other; all ranks call it, and all get the matrix.

    Both directions of a pair are loaded at once, as all_reduce over trees does: the rate is what each then carries.
    A pair takes some 0.3 s, more below 100 Mbit/s. Raises CollectiveCoreError.
    """
    if comm.size > MOST_RANKS:
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT, f"there are {comm.size} ranks, expected {MOST_RANKS} at most"
        )
    rates = (ctypes.c_double * (comm.size * comm.size))()
    for low in range(comm.size):
        for high in range(low + 1, comm.size):
            comm.barrier()  # no other bytes are on the way
            if comm.rank in (low, high):
                peer = low + high - comm.rank
                rates[peer * comm.size + comm.rank] = _received_gbytes_per_s(comm, peer)
    comm.all_reduce(rates, rates)
    return [list(rates[row * comm.size : (row + 1) * comm.size]) for row in range(comm.size)]


def _received_gbytes_per_s(comm: Communicator, peer: int) -> float:
    """Exchange ever more with the peer until that takes long enough to be timed; then the median of some times.

    Not the best: what shapes a line lets a burst through after every pause. Not the mean: hosts do other things too.
    A size must take long enough on both ranks: on a busy host, one may start when its buffers already hold all that it
    receives.
    """
    plan = (ctypes.c_uint64 * 2)(FIRST_BYTES, 0)  # the lower rank's: bytes, and the how manieth that counts
    rates: list[float] = []
    room = _Room(0)
    while True:
        if comm.rank < peer:
            comm.send(plan, peer)
        else:
            comm.recv(plan, peer)
        size_bytes, repeat = plan
        if size_bytes == 0:
            return statistics.median(rates)
        if size_bytes != room.size_bytes:
            room = _Room(size_bytes)
        began = time.perf_counter()
        with comm.group():
            comm.send(room.send, peer)
            comm.recv(room.recv, peer)
        took_s = time.perf_counter() - began
        if min(took_s, _of_peer(comm, peer, took_s)) < LONG_ENOUGH_S and size_bytes < MOST_BYTES:
            # Also while it counts: a pause of the host, or a burst after it, made too small a size look long enough.
            plan[:] = [size_bytes * 4, 0]
        elif (
            repeat < REPEATS
        ):  # the first exchange of a size touches its memory for the first time, and does not count
            plan[:] = [size_bytes, repeat + 1]
        else:
            plan[:] = [0, 0]
        if repeat == 1:
            rates.clear()  # those of a smaller size
        if repeat:
            rates.append(size_bytes / took_s / 1e9)


def _of_peer(comm: Communicator, peer: int, took_s: float) -> float:
    """Send a time (s) to the peer, and return the peer's."""
    mine, theirs = (ctypes.c_double * 1)(took_s), (ctypes.c_double * 1)()
    with comm.group():
        comm.send(mine, peer)
        comm.recv(theirs, peer)
    return theirs[0]


class _Room:
    """Memory for an exchange."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.send = (ctypes.c_uint8 * size_bytes)()
        self.recv = (ctypes.c_uint8 * size_bytes)()


def text_of(matrix: Matrix, hosts: Sequence[str]) -> str:
    """Return the file's text: a row per sender, a column per receiver, who they are as a comment behind each row."""
    lines = ["# 10^9 bytes per second from the rank of the row to that of the column, both directions loaded"]
    for rank, row in enumerate(matrix):
        cells = ("X" if other == rank else f"{rate:.4g}" for other, rate in enumerate(row))
        lines.append(" ".join(f"{cell:>9}" for cell in cells) + f"  # rank {rank}, {hosts[rank]}")
    return "\n".join(lines) + "\n"


def write_whole(path: Path, text: str) -> None:
    """Write the file, or leave what was there; raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    made = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        made.chmod(0o644)
        made.replace(path)
    except BaseException:
        made.unlink()
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure with the ranks of this job; rank 0 writes the file, or prints it."""
    parser = argparse.ArgumentParser(
        prog="python -m collective_core.link_matrix", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("-o", "--output", type=Path, help="the file that rank 0 writes; else it prints it")
    output = parser.parse_args(arguments).output
    with Communicator.from_environment() as comm:
        matrix = measure(comm)
        hosts = [comm.peer(rank).host for rank in range(comm.size)]
        comm.finalize()
        if comm.rank != 0:
            return 0
    text = text_of(matrix, hosts)
    if output is None:
        sys.stdout.write(text)
        return 0
    try:
        write_whole(output, text)
    except OSError as error:
        sys.stderr.write(f"cannot write {output}: {error.strerror}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
