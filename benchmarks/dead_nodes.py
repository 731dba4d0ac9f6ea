"""A thousand sshd nodes, of which 50 refuse, 20 hang in the banner and 10 hang in the command: what they cost.

The healthy nodes alone are gathered first, then all. Wanted: no more time than the healthy ones and one
deadline, exactly the 80 in the report, each with its own reason, and no thread, open file or process left over
(here, and on the nodes whose command hung).

    python benchmarks/dead_nodes.py [--nodes 1000] [--quick]
"""

from __future__ import annotations

import collections
import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from side_by_side import Farm, Goal, nodes_and_folder, options, ours, report
from sshd_farm import HANG_S

from clusterctl.facts.gather_fleet import gather_fleet
from clusterctl.inventory import load
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure
from clusterctl.transport.connect import Connector

FANOUT = 64
CONNECT_TIMEOUT_S = 20.0
COMMAND_TIMEOUT_S = 60.0


def held() -> tuple[int, int, int]:
    """Return the threads, open files and child processes of this process."""
    gc.collect()
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), len(children)


def left_on_nodes() -> int:
    """Return how many of the commands that never end are still there, on any node."""
    found = subprocess.run(
        ("pgrep", "-fc", f"sleep {HANG_S}"), capture_output=True, text=True, timeout=60, check=False
    )
    return int(found.stdout)


def gathered(nodes: list[Node]) -> tuple[dict[str, Failure], float]:
    """Gather the facts of nodes; return the failures and the seconds it took."""
    with Connector(connect_timeout_s=CONNECT_TIMEOUT_S) as connector:
        began = time.monotonic()
        outcome = gather_fleet(nodes, connector, fanout=FANOUT, timeout_s=COMMAND_TIMEOUT_S)
        return outcome.failures, time.monotonic() - began


def measure(farm: Farm, folder: Path, healthy: int) -> tuple[Goal, ...]:
    """Gather the healthy ones, then all in an order that mixes them, and hold the result against the goals."""
    inventory = load.load(farm.inventory(folder))
    nodes = list(inventory.nodes)
    failures, healthy_s = gathered(nodes[:healthy])
    if failures:
        raise SystemExit(f"{len(failures)} healthy nodes did not answer: {next(iter(failures.values()))}")
    before = held()
    dead = nodes[healthy:]
    step = max(1, healthy // len(dead))
    mixed: list[Node] = []
    for place, node in enumerate(nodes[:healthy]):
        if place % step == 0 and dead:
            mixed.append(dead.pop(0))
        mixed.append(node)
    mixed += dead
    failures, all_s = gathered(mixed)
    time.sleep(3)
    after = held()
    wanted = {node.name for node in nodes[healthy:]}
    kinds = collections.Counter(failure.kind.value for failure in failures.values())
    print(
        f"healthy alone {healthy_s:.1f} s, all {all_s:.1f} s, fan-out {FANOUT}; failures: {json.dumps(kinds)}"
    )
    print(f"deadlines: connect {CONNECT_TIMEOUT_S:g} s, command {COMMAND_TIMEOUT_S:g} s")
    leaked = sum(max(0, now - then) for then, now in zip(before, after, strict=True))
    return (
        Goal("all nodes, beyond the healthy ones' time", all_s - healthy_s, COMMAND_TIMEOUT_S, False, " s"),
        Goal("nodes wrongly reported or missing", len(wanted ^ set(failures)), 0, False),
        Goal("threads, files and processes left here", leaked, 0, False),
        Goal("processes left on nodes", left_on_nodes(), 0, False),
    )


def main() -> int:
    """Measure, print, and return 1 when a goal is missed."""
    chosen = options("dead nodes among many", 1000, 100)
    refusing, silent, hanging = (max(1, chosen.nodes * share // 1000) for share in (50, 20, 10))
    healthy = chosen.nodes - refusing - silent - hanging
    with nodes_and_folder(healthy, refusing=refusing, silent=silent, hanging=hanging) as (farm, folder):
        os.environ.update(ours(farm, folder))
        goals = measure(farm, folder, healthy)
    return report(
        f"{chosen.nodes} nodes: {refusing} refuse, {silent} hang in the banner, {hanging} in the command",
        (),
        goals,
    )


if __name__ == "__main__":
    sys.exit(main())
