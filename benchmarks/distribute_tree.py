"""An image of 1 GiB that does not compress, brought to 8 lab nodes: bytes out of the controller, time, steps.

The nodes are containers of the lab's docker driver with a docker engine, an sshd, a disk volume and a network stack
of their own each; engine, sshd and controller all run on this machine's cores, so that its cores and disk, not a
network, bound the wall time. Bytes are counted by the kernel (what the controller sent into the nodes' network, what
each node received) and by clusterctl itself. The rivals are what wiki pages say: docker save | ssh NODE docker load,
one node after the other or all at once. ``--mbit`` shapes what the controller sends (not what nodes send each other):
a laptop or head node on a slower line than the nodes have among themselves.

    python benchmarks/distribute_tree.py [--nodes 8] [--mib 1024] [--mbit 1000] [--no-rivals]

Needs root, a docker engine and about (2 * nodes + 4) times the image's size of disk below docker's root.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lab_nodes import Nodes, nodes_with_engines
from side_by_side import CLUSTERCTL, Goal, report

from clusterctl.images import engine

LIMIT = 1.2
_DEADLINE_S = 3000
_IMPORT = """
import os, sys, tarfile
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as tar:
    member = tarfile.TarInfo("random")
    member.size = int(sys.argv[1])
    with open("/dev/urandom", "rb") as source:
        tar.addfile(member, source)
"""


@dataclass(frozen=True)
class Round:
    """One way to bring the image: seconds, and bytes by the kernel's counters."""

    name: str
    wall_s: float
    client_cpu_s: float
    """Of the controller's processes alone."""
    nodes_cpu_s: float
    """Of all nodes together: their sshd, engines and transfers."""
    controller_bytes: int
    received_bytes: int


def make_image(name: str, size_bytes: int) -> int:
    """Import an image of one layer of random bytes into this machine's engine; return its size in bytes."""
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(_IMPORT)} {size_bytes} | docker import - {name}"
    subprocess.run(("sh", "-c", line), check=True, timeout=600, stdout=subprocess.DEVNULL)
    with engine.connect() as client:
        return int(client.images.get(name).attrs["Size"])


def children_cpu_s() -> float:
    """Return the seconds that this script's ended children have worked."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured(nodes: Nodes, name: str, work: object) -> Round:
    """Do the work, with the counters read before and after."""
    received, sent = nodes.received_bytes(), nodes.controller_bytes()
    busy, client, began = nodes.cpu_s(), children_cpu_s(), time.perf_counter()
    work()
    wall_s = time.perf_counter() - began
    client, busy = children_cpu_s() - client, nodes.cpu_s() - busy
    sent = nodes.controller_bytes() - sent
    gained = sum(nodes.received_bytes().values()) - sum(received.values())
    return Round(name, wall_s, client, busy, sent, gained)


def steps(document: dict) -> tuple[int, int]:
    """Return how many equal steps the copies need when every sender serves one at a time, and the controller's copies.

    Nodes are served in the order of the inventory (clusterctl.images.distribution.spread).
    """
    free: dict[str, int] = {"controller": 0}
    copies = 0
    for node in document["nodes"]:
        step = free[node["source"]] + 1
        free[node["source"]] = free[node["name"]] = step
        copies += node["source"] == "controller"
    return max(free.values()), copies


def by_tree(nodes: Nodes, image: str, cache: str) -> dict:
    """Distribute with clusterctl; return its document."""
    done = subprocess.run(
        (CLUSTERCTL, "image", "distribute", image, "-i", str(nodes.lab.inventory_path), "--json"),
        capture_output=True, text=True, timeout=_DEADLINE_S, check=False, env={**os.environ, "XDG_CACHE_HOME": cache},
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"clusterctl image distribute: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def by_pipes(nodes: Nodes, image: str, at_once: int) -> None:
    """docker save | ssh NODE docker load, for ``at_once`` nodes at a time."""

    def one(name: str) -> None:
        load = shlex.join(nodes.lab.ssh_argv(name, "docker load -q"))
        subprocess.run(
            ("bash", "-o", "pipefail", "-c", f"docker save {image} | {load}"),
            check=True, timeout=_DEADLINE_S, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, nodes.names))


def shape(nodes: Nodes, mbit: int) -> None:
    """Let the controller send no more than this into the nodes' network."""
    subprocess.run(
        ("tc", "qdisc", "add", "dev", nodes.bridge(), "root", "tbf", "rate", f"{mbit}mbit", "burst", "1m",
         "latency", "50ms"), check=True, timeout=30,
    )  # fmt: skip


def main() -> int:
    """Distribute by the tree and by the rivals, print the table and the goals; return 1 when one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--mbit", type=int, help="line rate of the controller; default: as fast as it goes")
    parser.add_argument("--no-rivals", action="store_true")
    options = parser.parse_args()
    image = f"clusterctl-benchmark:distribute-{secrets.token_hex(4)}"
    size = make_image(image, options.mib << 20)
    rounds = []
    try:
        with nodes_with_engines(options.nodes) as nodes, tempfile.TemporaryDirectory() as cache:
            if options.mbit:
                shape(nodes, options.mbit)
            documents: list[dict] = []
            rounds.append(
                measured(nodes, "clusterctl, tree", lambda: documents.append(by_tree(nodes, image, cache)))
            )
            there = nodes.everywhere(f"docker image inspect -f '{{{{.Id}}}}' {image}")
            again = measured(
                nodes, "clusterctl, once more", lambda: documents.append(by_tree(nodes, image, cache))
            )
            rounds.append(again)
            for name, at_once in (("one after the other", 1), ("all at once", options.nodes)):
                if options.no_rivals:
                    break
                nodes.everywhere(f"docker image rm {image}")
                rounds.append(
                    measured(nodes, f"docker save | ssh, {name}", lambda n=at_once: by_pipes(nodes, image, n))
                )
            engine_version = nodes.on(nodes.names[0], "docker version -f '{{.Server.Version}}'")
    finally:
        with engine.connect() as client:
            client.images.remove(image, force=True)
    first = documents[0]
    needed, copies = steps(first)
    line = f"the controller sends at most {options.mbit} Mbit/s" if options.mbit else "no line is shaped"
    print(f"docker {engine_version} on {options.nodes} nodes; {line}")
    print(f"the image has {size} bytes, its archive {first['archive_bytes']}")
    print(
        f"{'':36} {'wall s':>7} {'CPU s':>6} {'nodes CPU s':>11} {'out MiB':>9} {'x image':>8} {'into nodes':>11}"
    )
    for one in rounds:
        print(
            f"{one.name:36} {one.wall_s:7.1f} {one.client_cpu_s:6.1f} {one.nodes_cpu_s:11.1f}"
            f" {one.controller_bytes / 2**20:9.1f} {one.controller_bytes / size:8.3f}"
            f" {one.received_bytes / 2**20:7.0f} MiB"
        )
    for node in first["nodes"]:
        print(f"  {node['name']} from {node['source']}: {node['sent_bytes']} bytes")
    goals = (
        Goal("nodes that have the image", len(set(there)), options.nodes, True),
        Goal("out of the controller, of the image, by the kernel", rounds[0].controller_bytes / size, LIMIT, False),
        Goal("the same by clusterctl's own count", first["controller_bytes"] / size, LIMIT, False),
        Goal("copies that the controller sent", copies, 1, False),
        Goal("steps", needed, 1 + (options.nodes - 1).bit_length(), False),
        Goal("out of the controller when all have it, of the image", again.controller_bytes / size, 0.01, False),
    )  # fmt: skip
    pipes = [one.wall_s for one in rounds[2:]]
    if options.mbit and pipes:
        share = rounds[0].wall_s / min(pipes)
        goals = (*goals, Goal("wall of the tree, of the faster pipes", share, 1.0, False))
    return report(f"1 image of {options.mib} MiB to {options.nodes} nodes", (), goals)


if __name__ == "__main__":
    sys.exit(main())
