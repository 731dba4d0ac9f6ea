"""all_reduce inside a node by its three ways: through slots, by the kernel from buffer to buffer, in registered memory.

Ranks of one node, fp32 sum. The same ranks alternate between the three; a sample is some operations in a row. Printed
is the time by slots, its median and its best, and how many times as fast the other two are by the same figure. Needs
nothing but the package.

    python benchmarks/core_single_copy.py [--ranks 2] [--rounds 15] [--sizes 65536,1048576]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import time

SIZES = "65536,131072,262144,524288,1048576,4194304,16777216,67108864"
# In a row, so that the clock and the interpreter weigh little.
SAMPLE_BYTES = 8 << 20
DEADLINE_S = 900


def rank(rounds: int, sizes: list[int]) -> None:
    """Be one rank; rank 0 prints microseconds by size, place (apart, in place), way and round."""
    from collective_core.communicator import Buffer, Communicator, Dtype
    from collective_core.memory import Registration, allocate

    def join(algorithm: str) -> Communicator:
        os.environ["CCORE_ALGO"] = f"all_reduce:{algorithm}"
        return Communicator.from_environment(timeout_s=120)

    with join("twoshot") as slots, join("cma") as cma:
        (setting,) = (one for one in cma.settings() if one.name == "CCORE_CMA")
        if setting.value != "1":
            raise SystemExit(f"CCORE_CMA is not used: {setting.note}")

        def floats(memory: ctypes.Array[ctypes.c_ubyte]) -> Buffer:
            return Buffer(ctypes.addressof(memory), len(memory) // 4, Dtype.FLOAT32, memory)

        def microseconds(comm: Communicator, send: Buffer, recv: Buffer, times: int) -> float:
            comm.barrier()
            began = time.perf_counter()
            for _ in range(times):
                comm.all_reduce(send, recv)
            return (time.perf_counter() - began) * 1e6 / times

        report = []
        for size_bytes in sizes:
            times = max(1, min(50, SAMPLE_BYTES // size_bytes))
            ordinary = [floats((ctypes.c_ubyte * size_bytes)()) for _ in range(2)]
            direct = [floats(allocate(size_bytes)) for _ in range(2)]
            for one in ordinary:
                ctypes.memset(one.address, 0, size_bytes)
            with Registration(slots, direct[0]) as one_handle, Registration(slots, direct[1]) as other_handle:
                if not (one_handle.direct and other_handle.direct):
                    raise SystemExit("these ranks cannot reach each other's memory")
                ways = ((slots, ordinary), (cma, ordinary), (slots, direct))
                for target in (1, 0):
                    taken: list[list[float]] = [[], [], []]
                    for number in range(rounds + 1):
                        for way, (comm, buffers) in enumerate(ways):
                            spent = microseconds(comm, buffers[0], buffers[target], times)
                            if number > 0:  # the first touches pages
                                taken[way].append(spent)
                    report.append((size_bytes, "in place" if target == 0 else "apart", taken))
    if slots.rank == 0:
        print(json.dumps(report))


def main() -> None:
    """Start the ranks and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", default=SIZES, help="bytes, with commas")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        return rank(options.rounds, [int(one) for one in options.sizes.split(",")])
    size = str(options.ranks)
    meeting = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}  # all here: they need no address to meet
    started = [
        subprocess.Popen(
            (sys.executable, __file__, "--rank", "--rounds", str(options.rounds), "--sizes", options.sizes),
            env={**os.environ, **meeting, "RANK": str(me)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in range(options.ranks)
    ]
    outputs = [process.communicate(timeout=DEADLINE_S)[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a rank failed")
    load = os.getloadavg()[0]
    print(f"{options.ranks} ranks, {os.cpu_count()} cores, {platform.machine()}, load {load:.1f}\n")
    print("| bytes | | slots, us (median) | cma | registered | slots, us (best) | cma | registered |")
    print("|--:|---|--:|--:|--:|--:|--:|--:|")
    for size_bytes, place, taken in json.loads(outputs[0]):
        cells = []
        for figure in (statistics.median, min):
            slots_us, *others_us = (figure(way) for way in taken)
            cells.append(f"{slots_us:.0f}")
            cells += [f"{us:.0f} ({slots_us / us:.2f}x)" for us in others_us]
        print(f"| {size_bytes} | {place} | {' | '.join(cells)} |")
    return None


if __name__ == "__main__":
    main()
