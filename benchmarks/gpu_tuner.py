"""Compare the tuner's choices with plain NCCL and with the fixed table: all_reduce of fp32, two ranks on one GPU.

    python benchmarks/gpu_tuner.py [--repeats 3]

The ranks share the GPU under MPS. Each repeat starts them once with the tuner, once with CCORE_AUTOTUNE=0 and once with
CCORE_NCCL=0, interleaved; every sum is checked. Prints medians in us, the choice, and the ratio of NCCL's time to the
tuned time: never below 1 by more than noise.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from mps_server import NOT_STARTED, mps_server

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "gpu" / "programs" / "nccl_tuning.py"
SIZES = tuple(1 << power for power in range(10, 27, 2))
RANKS = 2
LIMIT_S = 180
VARIANTS = {
    "tuned": {"CCORE_AUTOTUNE": "1"},
    "table": {"CCORE_AUTOTUNE": "0"},
    "nccl": {"CCORE_NCCL": "0", "CCORE_AUTOTUNE": "0"},
}


def launch(variables: dict[str, str]) -> list[dict[str, Any]]:
    """Return what each rank printed; SystemExit if one failed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        **os.environ, **variables, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))),
    }  # fmt: skip
    ranks = [
        subprocess.Popen(
            (sys.executable, str(PROGRAM), *map(str, SIZES)),
            env={**shared, "RANK": str(rank), "LOCAL_RANK": "0"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        outputs = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    if any(rank.returncode for rank in ranks):
        raise SystemExit(f"a rank with {variables} failed: {[rank.returncode for rank in ranks]}")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    times: dict[str, dict[int, list[float]]] = {name: {size: [] for size in SIZES} for name in VARIANTS}
    chosen: dict[int, set[str]] = {size: set() for size in SIZES}
    with mps_server() as served:
        if served is None:
            raise SystemExit(NOT_STARTED)
        for _ in range(arguments.repeats):
            for name, variables in VARIANTS.items():
                results = launch({**variables, **served})
                for rows in zip(*(result["rows"] for result in results), strict=True):
                    times[name][rows[0]["bytes"]].append(max(row["us"] for row in rows))
                for choice in results[0]["report"]["choices"]:
                    chosen.get(1 << choice["size_class"], set()).add(choice["by"])
    print(f"{'bytes':>10} {'nccl us':>9} {'table us':>9} {'tuned us':>9} {'nccl/tuned':>10}  choice")
    for size in SIZES:
        nccl, table, tuned = (statistics.median(times[name][size]) for name in ("nccl", "table", "tuned"))
        by = "+".join(sorted(chosen[size])) or "-"
        print(f"{size:>10} {nccl:>9.1f} {table:>9.1f} {tuned:>9.1f} {nccl / tuned:>10.2f}  {by}")


if __name__ == "__main__":
    main()
