"""Time and memory of reading 100 MB of NCCL INFO log, beside a plain loop over its lines; prints one table."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SIZE_BYTES = 100_000_000
ROUNDS = 3
CHANNELS = 32
_MEASURE = """
import resource, sys, time
from pathlib import Path
path = Path(sys.argv[1])
{setup}
wall, cpu = time.perf_counter(), time.process_time()
{work}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
"""
_WORK = {
    "clusterctl": (
        "from clusterctl.trust.nccl_log import LogReader",
        (
            "reader = LogReader()\nwith path.open('rb') as stream:\n"
            "    reader.read(iter(lambda: stream.read(256 << 10), b''))\nreader.result()"
        ),
    ),
    "a loop over the lines": (
        "",
        "with path.open('rb') as stream:\n    sum(b' via ' in line for line in stream)",
    ),
    "re.search on each line": (
        "import re\nvia = re.compile(rb'NCCL INFO Channel .* via (.*)')",
        "with path.open('rb') as stream:\n    sum(via.search(line) is not None for line in stream)",
    ),
}


def write_log(path: Path, size_bytes: int) -> int:
    """Write what the ranks of a large run say, eight to a node, to at least ``size_bytes``; return the lines."""
    lines = written = rank = 0
    with path.open("w") as stream:
        while written < size_bytes:
            prefix = f"node{rank // 8:04d}:{4000 + rank % 8}:{5000 + rank % 8} [{rank % 8}] NCCL INFO "
            gpu, right, left = rank % 8, rank + 1, max(rank - 1, 0)
            said = [
                "NCCL version 2.27.7+cuda12.9",
                "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]; OOB ib0:10.0.0.1<0>",
                "Using network IB",
                *(f"NET/IB : GPU Direct RDMA Enabled for HCA {n} 'mlx5_{n}'" for n in range(8)),
                f"comm 0x55{rank:06x} rank {rank} nRanks 8192 nNodes 1024 localRanks 8 localRank {gpu} MNNVL 0",
                *(f"Channel {c:02d}/{CHANNELS} : " + " ".join(map(str, range(32))) for c in range(CHANNELS)),
                *(
                    f"Channel {c:02d}/0 : {rank}[{gpu}] -> {right}[{right % 8}] via P2P/CUMEM"
                    for c in range(CHANNELS)
                ),
                *(
                    f"Channel {c:02d}/0 : {left}[{left % 8}] -> {rank}[{gpu}] [receive] via NET/IB/{c % 8}/GDRDMA"
                    for c in range(CHANNELS)
                ),
                *(
                    f"Channel {c:02d}/0 : {rank}[{gpu}] -> {right}[{right % 8}] [send] via NET/IB/{c % 8}(0)/GDRDMA"
                    for c in range(CHANNELS)
                ),
                "Connected all rings, use ring PXN 1 GDR 1",
                *(
                    f"AllReduce: {1 << e} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..31}}"
                    for e in range(9)
                ),
            ]
            text = "".join(f"{prefix}{line}\n" for line in said)
            stream.write(text)
            written += len(text)
            lines += len(said)
            rank += 1
    return lines


def measure(path: Path, name: str) -> tuple[float, float, float]:
    """Return wall and CPU seconds and the highest memory (MB) of a fresh process that reads the log."""
    setup, work = _WORK[name]
    program = _MEASURE.format(setup=setup, work=work)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, timeout=300
    )
    wall, cpu, memory = map(float, done.stdout.split())
    return wall, cpu, memory


def main() -> None:
    """Interleave the ways to read, take the best of each, print the table and the goal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nccl.log"
        lines = write_log(path, SIZE_BYTES)
        print(
            f"{path.stat().st_size / 1e6:.0f} MB, {lines} lines; best of {ROUNDS}; load {os.getloadavg()[0]:.1f}"
        )
        found = {name: [measure(path, name) for _ in range(ROUNDS)] for name in _WORK}
    base = min(wall for wall, _, _ in found["a loop over the lines"])
    print(f"{'reader':24} {'wall s':>7} {'cpu s':>7} {'MB':>7} {'x loop':>7}")
    for name, values in found.items():
        wall, cpu, memory = (min(column) for column in zip(*values, strict=True))
        print(f"{name:24} {wall:7.2f} {cpu:7.2f} {memory:7.0f} {wall / base:7.1f}")
    print("goal: clusterctl under 3 s and 200 MB")


if __name__ == "__main__":
    main()
