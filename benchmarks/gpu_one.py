"""Race collective_core against NCCL and gloo with several ranks on one GPU, through the installed ``clusterctl bench``.

The variants of each run are interleaved, and every sum is checked. The ranks share the GPU once under an MPS daemon of
this script's own, if it can start one, and once in time slices; with --quick in time slices only if it cannot. The last
thing printed is one table: medians in us, the ratio to the fastest rival, and the path that the ranks reported.

    python benchmarks/gpu_one.py [--ranks 2,4] [--repeats 3] [--largest 64M] [--quick] [--out DIR]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from mps_server import mps_server

from clusterctl.documents.bench import BenchResult
from clusterctl.report.text.table import columns, size

OURS = ("ccore", "nccl+ccore")
VARIANTS = ("nccl", "gloo", *OURS)
# NCCL without MPS needs a turn of the GPU for each step, so that a sweep takes tens of seconds.
LAUNCH_S = 150


def race(ranks: int, arguments: argparse.Namespace, environment: dict[str, str], out: Path) -> BenchResult:
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
    return BenchResult.model_validate_json(done.stdout)


def path_of(result: BenchResult) -> str:
    """Return the path that ccore's ranks reported, in a word: ``kernel``."""
    (ours,) = (variant for variant in result.variants if variant.name == "ccore")
    paths = {path.path.partition(":")[0] for path in ours.proof.paths or () if path.path}
    return "+".join(sorted(paths)) or "?"


def rows(result: BenchResult, ranks: int, way: str) -> list[list[str]]:
    """Return the rows of the table for one run."""
    found = []
    for of_size in zip(*(variant.rows for variant in result.variants), strict=True):
        nccl, gloo, ccore, behind = (row.time_us.median for row in of_size)
        # A ratio of the document is missing where the NCCL-symbol library took nothing.
        taken = of_size[VARIANTS.index("nccl+ccore")].ratio is not None
        found.append(
            [
                str(ranks), way, size(of_size[0].size_bytes), *(f"{row.time_us.median:.1f}" for row in of_size),
                f"{min(nccl, gloo) / ccore:.2f}", f"{nccl / behind:.2f}" if taken else "-", path_of(result),
            ]
        )  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--largest", default="64M")
    parser.add_argument(
        "--quick", action="store_true", help="two ranks, one repeat, up to 4 MiB, MPS: half a minute"
    )
    parser.add_argument("--out", type=Path, default=Path("runs"))
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.ranks, arguments.repeats, arguments.largest = "2", 1, "4M"
    table: list[list[str]] = []
    for ranks in map(int, arguments.ranks.split(",")):
        with mps_server() as variables:
            if variables is None:
                print("note: no MPS daemon could be started; the ranks are measured in time slices alone")
            else:
                table += rows(race(ranks, arguments, variables, arguments.out), ranks, "MPS")
        if variables is None or not arguments.quick:
            table += rows(race(ranks, arguments, {}, arguments.out), ranks, "time slices")
    print(
        "\nall_reduce of fp32 on one GPU, median us; sums checked; ratio to the faster of nccl and gloo, and to nccl"
    )
    headers = ["ranks", "share by", "size", *VARIANTS, "ccore ratio", "nccl+ccore ratio", "path"]
    print(columns(headers, table))


if __name__ == "__main__":
    main()
