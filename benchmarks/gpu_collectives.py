"""Latency of libcollective_core_cuda.so with several ranks on one GPU: runs the installed program cuda_perf.

python benchmarks/gpu_collectives.py

Without MPS, 2 and 4 ranks: queues of calls that the host waits for once, and single calls. Under an MPS server of the
script's own, or one that CUDA_MPS_PIPE_DIRECTORY names: 2, 4 and 8 ranks in CUDA graphs of 20 operations, and 2 ranks
through host memory. Every result is checked on the GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from collective_core.locations import library_path
from mps_server import mps_server

PROGRAM = library_path().parents[1] / "bin" / "cuda_perf"
KIB, MIB = 1 << 10, 1 << 20
GRAPH = (KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB)
QUEUE = (KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB)
SINGLE = (KIB, 64 * KIB, 512 * KIB, MIB, 4 * MIB)


def table(
    kind: str, ranks: int, sizes: tuple[int, ...], variables: dict[str, str], path: str = "auto"
) -> int:
    """Print the rows of one table; return the program's exit status."""
    arguments = (str(PROGRAM), kind, f"ranks={ranks}", f"sizes={','.join(map(str, sizes))}")
    return subprocess.run(
        arguments, env={**os.environ, **variables, "CCORE_CUDA_PATH": path}, timeout=120, check=False
    ).returncode


def main() -> int:
    """Print all tables."""
    failed = []
    if "CUDA_MPS_PIPE_DIRECTORY" not in os.environ:
        failed += [table("queue", ranks, QUEUE, {}) for ranks in (2, 4)]
        failed += [table("single", ranks, SINGLE, {}) for ranks in (2, 4)]
    with mps_server() as variables:
        if variables is None:
            print("note: the MPS server could not be started, so nothing was measured under MPS")
        else:
            failed += [table("graph", ranks, GRAPH, variables) for ranks in (2, 4, 8)]
            failed.append(table("graph", 2, GRAPH[:5], variables, "host"))
    # A program that a signal ended has a negative status.
    return int(any(failed))


if __name__ == "__main__":
    sys.exit(main())
