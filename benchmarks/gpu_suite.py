"""What one machine with GPUs is measured by, in one call: all_reduce on NCCL, ResNet50 and BERT-Large at 1, 2, 4 GPUs.

Every figure comes from ``clusterctl bench --launcher local``; each step has a deadline of its own, and what remains of
the whole budget bounds it too, so that the table is always printed. The last thing printed is one table: figures, the
efficiency of every scaling point, and all_reduce beside a plain C loop over NCCL in the same run (nccl_loop.py) and
beside nccl-tests' figures recorded on four H200 (tests/unit/benchmarks/cases), all in place, with the ratios; ours
are medians of 3 launches. Documents of all steps stay in --out.

    python benchmarks/gpu_suite.py [--gpus 4] [--budget 560] [--env NCCL_NVLS_ENABLE=0] [--out DIR] [--only WORD,..]

On a machine without GPUs ``--rehearse`` runs the same steps small, on the CPUs and Gloo.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import nccl_loop

from clusterctl.benchmarks import perf_output
from clusterctl.benchmarks.scaling import percent
from clusterctl.report.text.table import columns, size

_ROOT = Path(__file__).resolve().parents[1]
_CASES = _ROOT / "tests" / "unit" / "benchmarks" / "cases"
# Time for clusterctl to end a launch that is past its deadline, and to write what it knows.
_GRACE_S = 20.0
_SHOWN = {8, 32 << 10, *(1 << power for power in range(20, 41))}


@dataclass(frozen=True)
class Step:
    """One call of ``clusterctl bench``: its name, its options, and how long each of its launches may take."""

    name: str
    options: tuple[str, ...]
    launches: int
    launch_s: float


def gpu_steps(counts: tuple[int, ...], largest: str) -> list[Step]:
    """Return the steps for a machine with GPUs; ``counts`` are the numbers of GPUs to measure."""
    scaling = ("--scaling", ",".join(map(str, counts)))
    fast = ("--precision", "amp-bf16", *scaling)
    sweep = ("--collective", "all_reduce", "--library", "nccl", "-b", "8", "-e", largest, "--repeats", "3")
    return [
        *(Step(f"all_reduce np={n}", (*sweep, "-np", str(n)), 3, 60) for n in counts if n > 1),
        Step(
            "resnet50 bf16",
            ("--model", "resnet50", "--channels-last", "--batch-size", "256", *fast),
            len(counts),
            60,
        ),
        Step(
            "bert-large 1 bf16",
            ("--model", "bert-large", "--phase", "1", "--batch-size", "64", *fast),
            len(counts),
            90,
        ),
        Step(
            "bert-large 2 bf16",
            ("--model", "bert-large", "--phase", "2", "--batch-size", "16", *fast),
            len(counts),
            90,
        ),
    ]


def rehearsal_steps() -> list[Step]:
    """Return the same steps, small, for a machine without GPUs."""
    quick = (
        "--library",
        "gloo",
        "--batch-size",
        "1",
        "-w",
        "1",
        "-n",
        "1",
        "--windows",
        "1",
        "--scaling",
        "1,2",
    )
    sweep = ("--collective", "all_reduce", "--library", "gloo", "-np", "2", "-b", "8", "-e", "64K", "-n", "2")
    return [
        Step("all_reduce np=2", sweep, 1, 120),
        Step("resnet50 fp32", ("--model", "resnet50", "--image-size", "32", *quick), 2, 120),
        Step("bert-tiny 1 fp32", ("--model", "bert-tiny", *quick), 2, 120),
    ]


def run(step: Step, inventory: Path, out: Path, until: float) -> tuple[dict[str, Any] | None, str]:
    """Run one step; return its document (None without one) and what became of it."""
    left = until - time.monotonic()
    launch_s = min(step.launch_s, (left - _GRACE_S) / step.launches)
    if launch_s < 5:
        return None, "not run: no time left"
    argv = (
        *(sys.executable, "-m", "clusterctl.cli.main", "bench", "-i", str(inventory), "--launcher", "local"),
        *(*step.options, "--timeout", f"{launch_s:.0f}", "--runs", str(out / "runs"), "--json"),
    )
    print(f"\n== {step.name}: clusterctl {' '.join(argv[3:])}", flush=True)
    began = time.monotonic()
    path = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, text=True, check=False, timeout=launch_s * step.launches + _GRACE_S,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, "past its deadline, and would not end"
    took = f"{time.monotonic() - began:.0f} s"
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return None, f"no document, exit {done.returncode}, {took}"
    if "error" in document:
        return None, document["error"]["message"]
    (out / f"{re.sub('[ =]', '-', step.name)}.json").write_text(json.dumps(document, indent=1))
    failures = [failure["message"] for failure in document["proof"].get("failures", ())]
    return document, failures[0] if failures else f"{document['status']}, {took}"


def recorded(ranks: int) -> dict[int, float]:
    """Return nccl-tests' microseconds by size, as recorded in place on that many H200."""
    path = _CASES / f"h200-x4-all_reduce_perf-mpirun-np{ranks}-g1.txt"
    if not path.exists():
        return {}
    rows = perf_output.parse(path.read_text()).rows
    return {row.size_bytes: row.in_place.time_us for row in rows if row.in_place.time_us is not None}


def plain_loop(ranks: int, largest: int) -> dict[int, float]:
    """Return the microseconds by size of NCCL in a plain C loop, now; empty, and said, where it cannot run."""
    try:
        return nccl_loop.in_place_us(ranks, 8, largest)
    except nccl_loop.Unavailable as error:
        print(f"== no plain loop over NCCL: {error}", flush=True)
        return {}


def table_rows(step: Step, document: dict[str, Any]) -> list[list[str]]:
    """Return a document's part of the table."""
    settings, found = document["proof"].get("settings", {}), []
    ranks = len(document["proof"].get("ranks", ()))
    (only,) = document["variants"]
    rows = only["rows"]
    swept = only["library"] == "nccl" and bool(rows)
    then = recorded(ranks) if swept else {}
    now = plain_loop(ranks, rows[-1]["size_bytes"]) if swept else {}
    for row in rows:
        if row["size_bytes"] not in _SHOWN:
            continue
        timed = row["size_bytes"] < 1 << 20
        time_us = row["time_us"]["median"]
        figure = f"{time_us:.1f} us" if timed else f"{row['busbw_gbps']['median']:.1f} GB/s"
        beside = [peer.get(row["size_bytes"]) for peer in (now, then)]
        ratios = ["-" if peer is None else f"{peer / time_us:.3f}" for peer in beside]
        found.append([f"all_reduce {size(row['size_bytes'])}", str(ranks), figure, *ratios])
    for point in only["points"]:
        speed, spread = (
            point["samples_per_s"]["median"],
            document["proof"]["spread"].get(str(point["np"]), 0.0),
        )
        per_rank = f"{speed / point['np']:.1f} +-{spread:.1f} per GPU"
        name = f"{step.name} b{settings.get('batch_size')}"
        figure = f"{speed:.1f} {point['sample']}s/s"
        found.append([name, str(point["np"]), figure, per_rank, percent(point["efficiency"])])
    return found


def main() -> int:
    """Run all steps and print the table; 1 when a step did not end well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, default=None, help="default: as many as there are")
    parser.add_argument("--budget", type=float, default=560.0, help="seconds for everything")
    parser.add_argument("--largest", default="8G", help="last size of all_reduce")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for every rank")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--only", default="", help="only steps whose names hold one of these words")
    parser.add_argument("--rehearse", action="store_true", help="small, on CPUs")
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.budget
    out: Path = arguments.out or Path(os.environ.get("OUT") or tempfile.mkdtemp(prefix="gpu-suite-"))
    out.mkdir(parents=True, exist_ok=True)
    steps = rehearsal_steps()
    if not arguments.rehearse:
        gpus = arguments.gpus or _visible_gpus()
        counts = (*(n for n in (1, 2, 4, 8, 16) if n < gpus), gpus)
        steps = gpu_steps(counts, arguments.largest)
    words = [word for word in arguments.only.split(",") if word]
    steps = [step for step in steps if not words or any(word in step.name for word in words)]
    node = {
        "name": "here", "address": "localhost", "connection": "local", "python": sys.executable,
        "env": dict(pair.split("=", 1) for pair in arguments.env),
    }  # fmt: skip
    inventory = out / "inventory.yaml"
    inventory.write_text(json.dumps({"version": 1, "nodes": [node]}))
    table, ends, good = [], [], True
    versions: dict[str, None] = {}
    for step in steps:
        document, end = run(step, inventory, out, until)
        ends.append(f"{step.name}: {end}")
        print(f"== {ends[-1]}", flush=True)
        good &= document is not None and document["status"] == "ok"
        if document is not None:
            table += table_rows(step, document)
            versions |= dict.fromkeys(document["proof"].get("library", ()))
    print("\n" + "\n".join([*ends, *versions, f"documents: {out}", ""]))
    print(
        columns(["benchmark", "GPUs", "figure", "/ C loop, per GPU", "/ nccl-tests, efficiency"], table),
        flush=True,
    )
    return 0 if good else 1


def _visible_gpus() -> int:
    listed = subprocess.run(("nvidia-smi", "-L"), capture_output=True, text=True, check=False, timeout=60)
    count = sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
    if count == 0:
        raise SystemExit("nvidia-smi lists no GPU: --rehearse runs the steps on CPUs")
    return count


if __name__ == "__main__":
    sys.exit(main())
