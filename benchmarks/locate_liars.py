"""How many names of real runs of ``locate`` are forged by a rank that lies, or by two that agree: must be 0.

The nodes are network namespaces of this machine on a shaped network (needs root, ip, tc, sshd and mpirun), and healthy.
Each run has a liar of another kind, in every third run as rank 0, in every third with a second one. A forged name is a
node that does not lie in any part of the result, or a link with no liar at its ends.

    python benchmarks/locate_liars.py [--runs 50] [--nodes 5] [--library ccore,gloo] [--from 0]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT)]

import bridged_nodes  # noqa: E402
import lying_rank  # noqa: E402

RATE_MBIT, TIMEOUT_S = 200, 60


def main() -> None:
    """Print a line for each run, and the count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--library", default="ccore,gloo", help="several, comma-separated, take turns")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the number of the first run")
    arguments = parser.parse_args()
    if reason := bridged_nodes.missing():
        sys.exit(reason)
    libraries = arguments.library.split(",")
    command = str(Path(sys.executable).with_name("clusterctl"))
    forged, statuses = 0, Counter[str]()
    numbers = range(arguments.first, arguments.first + arguments.runs)
    with (
        bridged_nodes.bridged_nodes([RATE_MBIT] * arguments.nodes) as farm,
        tempfile.TemporaryDirectory() as folder,
    ):
        for number in numbers:
            chance = random.Random(number)
            kind = lying_rank.KINDS[number % len(lying_rank.KINDS)]
            library = libraries[number // len(lying_rank.KINDS) % len(libraries)]
            ranks = chance.sample(range(1, arguments.nodes), 3)
            ranks[0] = 0 if number % 3 == 0 else ranks[0]
            liars = [f"node{rank + 1:02d}" for rank in (ranks[:2] if number % 3 == 1 else ranks[:1])]
            python = lying_rank.python_of(Path(folder), kind, ranks[2], liars, number)
            inventory = farm.inventory(Path(folder), socket_ifname="=eth0", slots=1, python=python)
            done = subprocess.run(
                (command, "locate", str(inventory), "--library", library, "--runs", folder, "--json",
                 "--timeout", str(TIMEOUT_S)),
                env={**os.environ, **farm.env}, capture_output=True, text=True, check=False,
            )  # fmt: skip
            found = json.loads(done.stdout)
            others = lying_rank.others_named(found, liars)
            forged += len(others)
            statuses[found["status"]] += 1
            itself = [one["node"] for one in found["failures"] if one["node"]]
            itself += [one["at_fault"] for one in found["ends_differ"] if one["at_fault"]]
            print(f"run {number}, {library}, {kind} of {'+'.join(liars)} about node{ranks[2] + 1:02d}, "
                  f"{found['duration_s']:.0f} s: {found['status']}, "
                  f"liars named: {' '.join(sorted(set(itself) & set(liars))) or 'none'}"
                  f"{'; FORGED: ' + '; '.join(others) if others else ''}", flush=True)  # fmt: skip
            if others or (found["status"] == "failed" and not itself):
                print(f"  {done.stderr.strip()[-500:]}", flush=True)
    print(f"{arguments.nodes} nodes, {arguments.runs} runs: {forged} forged names; "
          + ", ".join(f"{name} {count}" for name, count in statuses.most_common()))  # fmt: skip


if __name__ == "__main__":
    main()
