"""How many of many real runs of ``locate`` name something on a healthy fleet; the bound is 3 of 1000.

The nodes are network namespaces of this machine with two shaped rails each (needs root, ip, tc, sshd and mpirun). What
else runs here takes time from single ranks, which is what ``locate`` looks for: a busy machine is the harder test.

    python benchmarks/locate_healthy.py [--runs 50] [--nodes 4] [--library gloo,ccore]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT)]

import bridged_nodes  # noqa: E402

RATE_MBIT = 200
"""Far below what two cores carry, so that the shaped network is the slowest part."""


def main() -> None:
    """Print a line for each run, and one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--library", default="gloo", help="several, comma-separated, take turns")
    arguments = parser.parse_args()
    if reason := bridged_nodes.missing():
        sys.exit(reason)
    libraries = arguments.library.split(",")
    command = str(Path(sys.executable).with_name("clusterctl"))
    statuses: dict[str, Counter[str]] = {library: Counter() for library in libraries}
    suspects: Counter[str] = Counter()
    loads = []
    more = {}
    if "CCORE_LIBRARY" in os.environ:  # the library under test, where it is not the installed one
        more["env"] = json.dumps({"CCORE_LIBRARY": os.environ["CCORE_LIBRARY"]})
    with (
        bridged_nodes.bridged_nodes([(RATE_MBIT, RATE_MBIT)] * arguments.nodes) as farm,
        tempfile.TemporaryDirectory() as folder,
    ):
        inventory = farm.inventory(
            Path(folder), socket_ifname="=eth0,eth1", slots=1, python=sys.executable, **more
        )
        for number in range(arguments.runs):
            library = libraries[number % len(libraries)]
            loads.append(os.getloadavg()[0])
            done = subprocess.run(
                (command, "locate", str(inventory), "--library", library, "--runs", folder, "--json"),
                env={**os.environ, **farm.env}, capture_output=True, text=True, check=False,
            )  # fmt: skip
            found = json.loads(done.stdout) if done.stdout else {"status": "failed"}
            status = found["status"]
            statuses[library][status] += 1
            parts = [*found.get("suspects", ()), *found.get("suspects_alone", ())]
            suspects.update(one["status"] for one in parts)
            listed = json.dumps([*parts, *found.get("groups", ())])
            rates = sorted(one["gbps"] for one in found.get("pairs", ()))
            print(f"run {number + 1}, {library}, load {loads[-1]:.1f}, {found.get('duration_s', 0):.0f} s: {status} "
                  f"{listed if parts or status != 'none' else ''}", flush=True)  # fmt: skip
            if status != "none":
                print(f"  rates of pairs: {rates}\n  {done.stderr.strip()[-300:]}", flush=True)
    print(f"{arguments.nodes} nodes x 2 rails, {arguments.runs} runs; load before a run "
          f"{min(loads):.1f} to {max(loads):.1f}")  # fmt: skip
    for library, counted in statuses.items():
        print(f"{library}:", ", ".join(f"{name} {count}" for name, count in counted.most_common()))
    print(
        "suspects by status:",
        ", ".join(f"{name} {count}" for name, count in suspects.most_common()) or "none",
    )


if __name__ == "__main__":
    main()
