"""Runs all of torch's tests of a backend on gloo and on ccore; exits 1 if ccore does not pass what gloo passes.

Tests that torch keeps for its MPI backend, which a torch from PyPI does not have, are run on ccore as well.
With --cuda: the tests of CUDA tensors, on nccl and on ccore, all ranks on device 0.

    torch_suite_compare.py [--cuda] [--world-size 2] [--jobs 1]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

RUNNER = Path(__file__).with_name("torch_suite.py")
LIMIT_S = 3600

Outcomes = dict[str, tuple[str, str]]


def run(*arguments: str, jobs: int) -> Outcomes:
    """Outcome and text of every test."""
    parts = [
        subprocess.Popen(
            (sys.executable, str(RUNNER), *arguments, "--part", f"{part}/{jobs}"),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for part in range(jobs)
    ]  # fmt: skip
    outcomes: Outcomes = {}
    for part in parts:
        text, _ = part.communicate(timeout=LIMIT_S)
        if part.returncode:
            raise SystemExit(f"{RUNNER.name} {' '.join(arguments)} ended with {part.returncode}")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        outcomes |= {line["test"]: (line["outcome"], line["text"]) for line in lines}
    counts = Counter(outcome for outcome, _ in outcomes.values())
    print(
        f"{' '.join(arguments):20}",
        ", ".join(f"{counts[one]} {one}" for one in ("passed", "skipped", "failed")),
        flush=True,
    )
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--world-size", default="2")
    parser.add_argument("--jobs", type=int, default=1, help="how many tests run at the same time")
    options = parser.parse_args()
    size, jobs = ("--world-size", options.world_size), options.jobs
    rival = "nccl" if options.cuda else "gloo"
    theirs = run(rival, "--as", rival, *size, jobs=jobs)
    ccore = run("ccore", "--as", rival, *size, jobs=jobs)
    as_mpi = {} if options.cuda else run("ccore", "--as", "mpi", *size, jobs=jobs)
    absent = ("absent", "")
    worse = {
        test: ccore.get(test, absent)
        for test, (outcome, _) in theirs.items()
        if outcome == "passed" and ccore.get(test, absent)[0] != "passed"
    }
    worse |= {test: end for test, end in as_mpi.items() if end[0] == "failed"}
    more = sorted(
        test
        for test in theirs
        if theirs[test][0] != "passed"
        and "passed" in {ccore.get(test, absent)[0], as_mpi.get(test, absent)[0]}
    )
    print(f"passed by ccore and not by {rival}: {', '.join(more) or 'none'}")
    for test, (outcome, text) in worse.items():
        print(f"\n{test}: {outcome} on ccore\n{text}")
    passed = {test for test, (outcome, _) in theirs.items() if outcome == "passed"}
    print(f"of {len(passed)} tests that {rival} passes, ccore passes {len(passed - worse.keys())}")
    return 1 if worse or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
