"""Race collective_core against NCCL and gloo with several ranks on one GPU, through the installed ``clusterctl bench``.

The variants of each run are interleaved, and every sum is checked. The ranks share the GPU once as processes that take
turns, and once under an MPS daemon of this script's own, if it can start one. The last thing printed is one table:
medians in us, the ratio to the fastest rival, and the path that the ranks reported.

    python benchmarks/gpu_one.py [--ranks 2,4] [--repeats 3] [--largest 64M] [--quick] [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from mps_server import mps_server

from clusterctl.report.text.table import columns, size

OURS = ("ccore", "nccl+ccore")
VARIANTS = ("nccl", "gloo", *OURS)
# NCCL without MPS needs a turn of the GPU for each step, so that a sweep takes tens of seconds.
LAUNCH_S = 150


def race(ranks: int, arguments: argparse.Namespace, environment: dict[str, str], out: Path) -> dict[str, Any]:
    """Return the document of one ``bench``; SystemExit with its words if it failed."""
    words = (
        sys.executable, "-m", "clusterctl.cli.main", "bench", "--json", "--launcher", "local", "--oversubscribe",
        "-np", str(ranks), "--compare", ",".join(VARIANTS), "--repeats", str(arguments.repeats),
        "-b", "1K", "-e", arguments.largest, "-f", "8", "-n", "10", "-w", "3", "--timeout", str(LAUNCH_S),
        "--runs", str(out),
    )  # fmt: skip
    done = subprocess.run(
        words, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False,
        timeout=LAUNCH_S * len(VARIANTS) * arguments.repeats,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"clusterctl bench ended with status {done.returncode}: {' '.join(words)}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def path_of(document: dict[str, Any]) -> str:
    """Return the path that ccore's ranks reported, in a word: ``kernel``."""
    ours = next(variant for variant in document["variants"] if variant["name"] == "ccore")
    paths = {
        path["path"].partition(":")[0]
        for path in ours["variants"][0]["proof"].get("paths", ())
        if path["path"]
    }
    return "+".join(sorted(paths)) or "?"


def rows(document: dict[str, Any], ranks: int, way: str) -> list[list[str]]:
    """Return the rows of the table for one run."""
    times = {
        variant["name"]: {row["size_bytes"]: row for row in variant["rows"]}
        for variant in document["variants"]
    }
    found = []
    for size_bytes in times["nccl"]:
        median = {name: times[name][size_bytes]["time_us"]["median"] for name in VARIANTS}
        rival = min(median["nccl"], median["gloo"])
        # A ratio of the document is missing where the NCCL-symbol library took nothing.
        taken = times["nccl+ccore"][size_bytes]["ratio"] is not None
        found.append(
            [
                str(ranks), way, size(size_bytes), *(f"{median[name]:.1f}" for name in VARIANTS),
                f"{rival / median['ccore']:.2f}", f"{median['nccl'] / median['nccl+ccore']:.2f}" if taken else "-",
                path_of(document),
            ]
        )  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--largest", default="64M")
    parser.add_argument("--quick", action="store_true", help="two ranks, one repeat, up to 4 MiB: a minute")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.ranks, arguments.repeats, arguments.largest = "2", 1, "4M"
    table: list[list[str]] = []
    for ranks in map(int, arguments.ranks.split(",")):
        table += rows(race(ranks, arguments, {}, arguments.out), ranks, "turns")
        with mps_server() as variables:
            if variables is None:
                print("note: no MPS daemon could be started; only ranks that take turns are measured")
                continue
            table += rows(race(ranks, arguments, variables, arguments.out), ranks, "MPS")
    print(
        "\nall_reduce of fp32 on one GPU, median us; sums checked; ratio to the faster of nccl and gloo, and to nccl"
    )
    headers = ["ranks", "share by", "size", *VARIANTS, "ccore ratio", "nccl+ccore ratio", "path"]
    print(columns(headers, table))


if __name__ == "__main__":
    main()
