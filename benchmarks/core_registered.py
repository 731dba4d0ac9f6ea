"""all_reduce in registered memory against the same in ordinary memory: ranks of one node, fp32 sum.

Both are taken in turns by the same ranks; printed is the median time of rank 0 in ordinary memory and how many times as
fast the registered memory is. No goal is set.

    python benchmarks/core_registered.py [--ranks 2] [--rounds 15]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import socket
import statistics
import subprocess
import sys
import time
from typing import Any

SIZES = (64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
DEADLINE_S = 600


def rank(rounds: int) -> None:
    """Be one rank; rank 0 prints microseconds by size: [[ordinary, registered], ...] out of place and in place."""
    import numpy
    from collective_core.communicator import Communicator, unique_id_from_address
    from collective_core.memory import Registration, allocate

    me, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    identity = unique_id_from_address(
        "127.0.0.1", int(os.environ["CCORE_ROOT_PORT"]), os.environ["CCORE_JOB_SECRET"], is_root=me == 0
    )
    medians: dict[int, list[list[float]]] = {}
    with Communicator(me, size, identity, timeout_s=120) as comm:

        def microseconds(send: Any, recv: Any) -> float:
            comm.barrier()
            began = time.perf_counter()
            comm.all_reduce(send, recv)
            return (time.perf_counter() - began) * 1e6

        for size_bytes in SIZES:
            ordinary = [numpy.zeros(size_bytes // 4, dtype="f4") for _ in range(2)]
            direct = [numpy.frombuffer(allocate(size_bytes), dtype="f4") for _ in range(2)]
            with Registration(comm, direct[0]) as one, Registration(comm, direct[1]) as other:
                if not (one.direct and other.direct):
                    raise SystemExit("these ranks cannot reach each other's memory")
                medians[size_bytes] = []
                for target in (1, 0):
                    taken: list[list[float]] = [[], []]
                    for number in range(rounds + 1):
                        for kind, buffers in enumerate((ordinary, direct)):
                            spent = microseconds(buffers[0], buffers[target])
                            if number > 0:  # the first touches pages
                                taken[kind].append(spent)
                    medians[size_bytes].append([statistics.median(one_kind) for one_kind in taken])
    if me == 0:
        print(json.dumps(medians))


def main() -> None:
    """Start the ranks and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        return rank(options.rounds)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    meeting = {
        "WORLD_SIZE": str(options.ranks),
        "CCORE_ROOT_PORT": port,
        "CCORE_JOB_SECRET": secrets.token_hex(16),
    }
    started = [
        subprocess.Popen(
            (sys.executable, __file__, "--rank", "--rounds", str(options.rounds)),
            env={**os.environ, **meeting, "RANK": str(me)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in range(options.ranks)
    ]
    outputs = [process.communicate(timeout=DEADLINE_S)[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a rank failed")
    print(
        f"{options.ranks} ranks, {os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}\n"
    )
    print("| bytes | ordinary, us | registered | ordinary in place, us | registered in place |")
    print("|--:|--:|--:|--:|--:|")
    for size_bytes, (apart, in_place) in json.loads(outputs[0]).items():
        row = (f"{pair[0]:.0f} | {pair[0] / pair[1]:.2f}x" for pair in (apart, in_place))
        print(f"| {size_bytes} | {' | '.join(row)} |")
    return None


if __name__ == "__main__":
    main()
