"""Runs all of torch's tests of a backend on gloo and on ccore; exits 1 if ccore does not pass what gloo passes.

Tests that torch keeps for its MPI backend, which a torch from PyPI does not have, are run on ccore as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

RUNNER = Path(__file__).with_name("torch_suite.py")
LIMIT_S = 3600

Outcomes = dict[str, tuple[str, str]]


def run(*arguments: str) -> Outcomes:
    """Outcome and text of every test."""
    done = subprocess.run(
        (sys.executable, str(RUNNER), *arguments),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    outcomes = {line["test"]: (line["outcome"], line["text"]) for line in lines}
    counts = Counter(outcome for outcome, _ in outcomes.values())
    print(
        f"{' '.join(arguments):20}",
        ", ".join(f"{counts[one]} {one}" for one in ("passed", "skipped", "failed")),
    )
    return outcomes


def main() -> int:
    size = sys.argv[1:] or ["2"]
    gloo = run("gloo", "--world-size", *size)
    ccore = run("ccore", "--world-size", *size)
    as_mpi = run("ccore", "--as", "mpi", "--world-size", *size)
    absent = ("absent", "")
    worse = {
        test: ccore.get(test, absent)
        for test, (outcome, _) in gloo.items()
        if outcome == "passed" and ccore.get(test, absent)[0] != "passed"
    }
    worse |= {test: end for test, end in as_mpi.items() if end[0] == "failed"}
    more = sorted(
        test
        for test in gloo
        if gloo[test][0] != "passed" and "passed" in {ccore.get(test, absent)[0], as_mpi.get(test, absent)[0]}
    )
    print(f"passed by ccore and not by gloo: {', '.join(more) or 'none'}")
    for test, (outcome, text) in worse.items():
        print(f"\n{test}: {outcome} on ccore\n{text}")
    passed = {test for test, (outcome, _) in gloo.items() if outcome == "passed"}
    print(f"of {len(passed)} tests that gloo passes, ccore passes {len(passed - worse.keys())}")
    return 1 if worse or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
