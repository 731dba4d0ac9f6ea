"""How often `runs compare` is wrong about equal runs, and how often it finds a real difference.

The first table simulates two runs of 18 sizes with several kinds of noise. "False alarm" is the share of tables of
equal runs with any "faster" or "slower"; "found" is the share of sizes that are really 10 % faster and read "faster".
With --real N, the real command then measures N+1 equal runs with --repeats 5 and N+1 single sweeps on this machine, and
`runs compare` compares each run with the next: N comparisons of each kind.

    .venv/bin/python benchmarks/compare_noise.py [--tables 2000] [--real 50] [--library ccore]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from clusterctl.documents.kinds import ComparisonWord
from clusterctl.results.noise import Pair, judge, scatter_of_repeats

SIZES = 18
BENCH = ("bench", "--collective", "all_reduce", "-np", "2", "-e", "1M", "-n", "5")
CERTAIN = {ComparisonWord.FASTER.value, ComparisonWord.SLOWER.value}


def outliers(sigma: float) -> float:
    """Return normal noise; one figure in ten is up to twice as large."""
    return random.gauss(1, sigma) * (1 + random.random() if random.random() < 0.1 else 1)


NOISES: dict[str, Callable[[], float]] = {
    "normal, 2 %": lambda: random.gauss(1, 0.02),
    "normal, 10 %": lambda: random.gauss(1, 0.1),
    "outliers": lambda: outliers(0.02),
    "skewed, 10 %": lambda: 1 + 0.1 * random.expovariate(1),
    "heavy tail": lambda: 1 + 0.1 * (random.paretovariate(1.5) - 1),
}


def table(noise: Callable[[], float], repeats: int, by: float) -> list[str]:
    """Return the words of one simulated comparison."""
    pairs = []
    for _ in range(SIZES):
        sides = [[noise() for _ in range(repeats)] for _ in "AB"]
        ratio = by * statistics.median(sides[0]) / statistics.median(sides[1])
        scatters = [
            scatter_of_repeats(statistics.stdev(side) / statistics.fmean(side), repeats) for side in sides
        ]
        pairs.append(Pair(ratio, *scatters))
    return [one.word.value for one in judge(pairs)]


def simulate(tables: int) -> None:
    """Print the table of simulated rates."""
    print(f"{'noise':14} {'repeats':>7} {'false alarm':>12} {'found (+10 %)':>14}")
    for name, noise in NOISES.items():
        for repeats in (3, 5, 10):
            alarms = sum(bool(CERTAIN & set(table(noise, repeats, 1.0))) for _ in range(tables))
            found = [word for _ in range(tables // 10) for word in table(noise, repeats, 1.1)]
            share = found.count(ComparisonWord.FASTER.value) / len(found)
            print(
                f"{name:14} {repeats:>7} {100 * alarms / tables:>10.2f} % {100 * share:>12.1f} %", flush=True
            )


def clusterctl(runs: Path, *words: str) -> dict[str, object]:
    """Run the real command and return its JSON."""
    line = (str(Path(sys.executable).with_name("clusterctl")), "-q", *words, "--runs", str(runs), "--json")
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def real(count: int, repeats: int, library: str | None) -> None:
    """Measure equal runs, compare each with the next, and print how many comparisons were certain."""
    chosen = ("--library", library) if library else ()
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        ids = [
            str(clusterctl(runs, *BENCH, *chosen, "--repeats", str(repeats))["run"]) for _ in range(count + 1)
        ]
        alarms = 0
        for one, other in pairwise(ids):
            document = json.dumps(clusterctl(runs, "runs", "compare", one, other))
            alarms += any(f'"word": "{word}"' in document for word in CERTAIN)
    kind = "single sweeps" if repeats == 1 else f"--repeats {repeats}"
    print(f"real, {kind}: {alarms} of {count} comparisons of equal runs had a faster or slower", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=2000, help="simulated comparisons for each line")
    parser.add_argument("--real", type=int, default=0, help="comparisons of real runs, of each kind")
    parser.add_argument("--library", default=None, help="the library of the real runs")
    arguments = parser.parse_args()
    random.seed(1)
    simulate(arguments.tables)
    if arguments.real:
        real(arguments.real, 1, arguments.library)
        real(arguments.real, 5, arguments.library)


if __name__ == "__main__":
    main()
