"""Throughput of writing a 100 MB file to 16 nodes: clusterctl's ``put`` against ``ssh cat`` with aes128-gcm.

Both write to 16 sshd nodes at once, into memory; clusterctl also checks the size and renames the file into place.

    python benchmarks/push_throughput.py [--nodes 16] [--rounds 3] [--quick]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from side_by_side import Farm, Goal, nodes_and_folder, options, ours, report

from clusterctl.inventory import load
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Transport
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out


def put(farm: Farm, folder: Path, data: bytes) -> float:
    """Write the data to every node by clusterctl's transport; return the seconds it took."""
    nodes = load.load(farm.inventory(folder)).nodes

    def work(node: Node, transport: Transport) -> None:
        transport.put(data, str(folder / node.name))

    began = time.monotonic()
    with Connector(connect_timeout_s=60) as connector:
        failures = fan_out(nodes, connector, work).failures
    if failures:
        raise SystemExit(f"clusterctl: {next(iter(failures.values()))}")
    return time.monotonic() - began


def cat(farm: Farm, folder: Path, source: Path) -> float:
    """Write the data to every node by one ssh each; return the seconds it took."""
    began = time.monotonic()
    running = []
    for node in farm.nodes:
        with source.open("rb") as data:
            argv = (
                "ssh", "-F", "none", "-c", "aes128-gcm@openssh.com", "-o", "BatchMode=yes",
                "-i", str(farm.identity_file), "-o", f"UserKnownHostsFile={farm.known_hosts}",
                "-p", str(node.port), f"{farm.user}@{node.address}",
                f"cat > {folder / node.name}",
            )  # fmt: skip
            running.append(subprocess.Popen(argv, stdin=data))
    statuses = [process.wait(timeout=600) for process in running]
    if any(statuses):
        raise SystemExit("ssh: a copy failed")
    return time.monotonic() - began


def main() -> int:
    """Measure alternately, print the ratio, and return 1 when the goal is missed."""
    chosen = options("throughput of put against ssh cat", 16, 4)
    size_mb = 10 if chosen.quick else 100
    data = os.urandom(size_mb * 1_000_000)
    mine, theirs = [], []
    with nodes_and_folder(chosen.nodes, in_memory=True) as (farm, folder):
        os.environ.update(ours(farm, folder))
        source = folder / "source"
        source.write_bytes(data)
        for _ in range(chosen.rounds):
            mine.append(put(farm, folder, data))
            for node in farm.nodes:
                if (folder / node.name).read_bytes() != data:
                    raise SystemExit(f"{node.name} holds other bytes")
            theirs.append(cat(farm, folder, source))
    total = size_mb * chosen.nodes
    fast, slow = total / statistics.median(mine), total / statistics.median(theirs)
    print(f"clusterctl put {fast:.0f} MB/s, ssh cat {slow:.0f} MB/s, all nodes together")
    goals = (Goal("throughput of put, x ssh cat", fast / slow, 0.7, True),)
    return report(f"{size_mb} MB to {chosen.nodes} nodes, medians of {chosen.rounds}", (), goals)


if __name__ == "__main__":
    sys.exit(main())
