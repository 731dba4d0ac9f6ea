"""``up`` and ``down`` on 16 nodes: wall, CPU, where the time goes, and what is left afterwards.

The nodes are containers of the lab's docker driver with an sshd, a network stack and a docker engine of their own
each: what ``up`` starts on a node is a container in that node's engine, as on real nodes. Controller, nodes, engines
and containers share this machine's cores, which real nodes do not. The image is next to nothing (its programs are the
node's, mounted): what is in an image does not matter to ``up``, and bringing it is not part of the time. Rounds are of
the installed command; the phases are those of one more round inside this process.

    python benchmarks/up_many.py [--nodes 16] [--rounds 3]

Needs root, a docker engine and about 2 GB of memory for 16 nodes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import node_image
import node_state
import yaml
from lab_nodes import Nodes, nodes_with_engines
from side_by_side import CLUSTERCTL, Goal, Rival, report

from clusterctl.cli.session import session_of
from clusterctl.containers import up as containers_up
from clusterctl.images import engine
from clusterctl.inventory.load import load
from clusterctl.rundir import RunDir

LIMIT_S = 15.0


def inventory_of(nodes: Nodes, image: str, path: Path) -> Path:
    """Write the lab's inventory with the image."""
    document = yaml.safe_load(nodes.lab.inventory_path.read_text())
    document["defaults"]["container"] |= {
        "image": image,
        "shm_size": "64m",
        "volumes": list(node_image.VOLUMES),
    }
    path.write_text(yaml.safe_dump(document))
    return path


def phases(inventory: Path, runs: Path) -> list[tuple[str, float, float]]:
    """Bring up and take down once in this process; return wall and CPU seconds of every phase."""
    marks: list[tuple[str, float, float]] = []

    def mark(name: str) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        marks.append((name, time.perf_counter(), usage.ru_utime + usage.ru_stime))

    wanted = load(inventory)
    session = session_of(wanted, fanout=None, accept_new_host_keys=False)
    run = RunDir.create("up", runs)
    common = {"fanout": session.fanout}
    containers_up.bring_up(
        wanted, session.connect, run, port=2222, jump_known_hosts="", progress=mark, **common
    )
    mark("down: removing")
    containers_up.take_down(wanted, session.connect, run, force=False, **common)
    mark("end")
    return [(one[0], two[1] - one[1], two[2] - one[2]) for one, two in itertools.pairwise(marks)]


def main() -> int:
    """Bring containers up and down in rounds, print the tables and the goals; return 1 when one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    image = f"clusterctl-benchmark:up-{secrets.token_hex(4)}"
    with engine.connect() as client:
        node_image.make(client, image)
    try:
        with tempfile.TemporaryDirectory() as folder, nodes_with_engines(options.nodes) as nodes:
            place = Path(folder)
            inventory = inventory_of(nodes, image, place / "inventory.yaml")
            brought = (CLUSTERCTL, "image", "distribute", "-i", str(inventory), "--json")
            subprocess.run(brought, check=True, timeout=600, stdout=subprocess.DEVNULL)
            env = {"CLUSTERCTL_RUNS": str(place / "runs")}
            up = Rival(f"up, {options.nodes} nodes", (CLUSTERCTL, "up", str(inventory), "--json"), env)
            down = Rival(f"down, {options.nodes} nodes", (CLUSTERCTL, "down", "--json"), env)
            before, nodes_cpu = nodes.everywhere(node_state.COMMAND), nodes.cpu_s()
            started = 0
            for number in range(options.rounds):
                started = len(json.loads(up.run(place / f"up-{number}.out"))["nodes"])
                removed = json.loads(down.run(place / f"down-{number}.out"))["removed"]
            nodes_cpu = (nodes.cpu_s() - nodes_cpu) / options.rounds
            after = nodes.everywhere(node_state.COMMAND)
            left = {name: node_state.changes(before[name], after[name]) for name in before}
            kept = sorted({path.name for path in (place / "runs").glob("*/*")})
            found = phases(inventory, place / "runs")
    finally:
        with engine.connect() as client:
            client.images.remove(image, force=True)
    for name, wall_s, cpu_s in found:
        print(f"  {name:44} {wall_s:6.2f} s wall, {cpu_s:5.2f} s CPU of the controller")
    print(f"  CPU of all nodes and their engines, per up and down: {nodes_cpu:.1f} s")
    print(f"  wall s of each up: {' '.join(f'{value:.1f}' for value in up.wall_s)}")
    print(f"  files of a run that is down: {' '.join(kept)}")
    for name, lines in left.items():
        if lines:
            print(f"  left on {name}: {lines[:10]}")
    goals = (
        Goal("containers that are up", started, options.nodes, True),
        Goal("up, median wall", up.wall, LIMIT_S, False, "s"),
        Goal("containers that down removed", removed, options.nodes, True),
        Goal("nodes on which anything is left", sum(map(bool, left.values())), 0, False),
        Goal("other files in the run folders", len(set(kept) - {"inventory.json", "launch.json"}), 0, False),
    )  # fmt: skip
    return report(f"up and down of {options.nodes} containers, {options.rounds} rounds", (up, down), goals)


if __name__ == "__main__":
    sys.exit(main())
