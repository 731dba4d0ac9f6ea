"""Wall time of ``clusterctl --help`` and of completions beside a bare interpreter and importing typer; one table."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
SCRIPT = Path(sys.executable).parent / "clusterctl"
COMMANDS = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "python -c 'import typer'": (sys.executable, "-c", "import typer"),
    "clusterctl --help": (str(SCRIPT), "--help"),
    "completion of a command": (str(SCRIPT), "__complete", "bash", "clusterctl ch"),
    "completion of --only": (str(SCRIPT), "__complete", "bash", "clusterctl check --only mem"),
}


def main() -> None:
    """Interleave the commands, so that noise hits all alike, and print medians."""
    samples: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS + 1):
        for name, argv in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(argv, capture_output=True, check=True, timeout=60)
            samples[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values[1:]) for name, values in samples.items()}
    bare = medians["python -c pass"]
    print(f"{'command':28} {'median s':>9} {'x bare':>7}")
    for name, median in medians.items():
        print(f"{name:28} {median:9.3f} {median / bare:7.1f}")
    print("goals: clusterctl --help under 0.25 s, a completion under 0.3 s")


if __name__ == "__main__":
    main()
