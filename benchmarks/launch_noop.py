"""Time ``clusterctl launch`` of a program that does nothing against ``mpirun`` by hand on the same sshd nodes.

The rival is what a person types: Open MPI with a hostfile, an ssh_config that reaches the nodes, and the program. What
``launch`` adds are its checks, the health of the nodes before and after, the watch and the run record. The time of the
program itself is that of ``launch.json``: from the start of the launcher to its end.

    python benchmarks/launch_noop.py [--nodes 16] [--rounds 5] [--quick]
"""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

from side_by_side import CLUSTERCTL, Farm, Goal, Rival, nodes_and_folder, options, ours, report, take_turns

from clusterctl.text.openssh import writer

_MOST_RATIO = 1.1


def ssh_config(farm: Farm, folder: Path) -> Path:
    """Write the ssh_config of a person who reaches the farm's nodes by name, and return its path."""
    sections = [
        writer.section(
            f"Host {node.name}",
            [("HostName", node.address), ("Port", str(node.port)), ("User", farm.user)],
        )
        for node in farm.nodes
    ]
    common = [("IdentityFile", str(farm.identity_file)), ("UserKnownHostsFile", str(farm.known_hosts))]
    path = folder / "ssh_config"
    path.write_text("\n".join((*sections, writer.section("Host *", common), "")))
    return path


def by_hand(farm: Farm, folder: Path) -> tuple[str, ...]:
    """Return the words of mpirun that a person types for one rank on each node."""
    hosts = folder / "hosts"
    hosts.write_text("".join(f"{node.name} slots=1\n" for node in farm.nodes))
    config = ssh_config(farm, folder)
    return (
        "mpirun", "-np", str(len(farm.nodes)), "--hostfile", str(hosts), "--allow-run-as-root", "--bind-to", "none",
        "--mca", "plm_rsh_agent", f"ssh -F {config}", "--mca", "plm_rsh_no_tree_spawn", "1",
        "--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo", "true",
    )  # fmt: skip


def counting(
    farm: Farm, rivals: tuple[Rival, ...], asked: dict[str, list[tuple[int, int]]]
) -> Callable[[], None]:
    """Return what notes, between two turns, the logins and commands of all nodes since the turn before."""
    seen = [0, 0]
    turn = 0

    def count() -> None:
        nonlocal turn
        now = [sum(node.connections for node in farm.nodes), sum(node.execs for node in farm.nodes)]
        if turn:
            asked[rivals[(turn - 1) % len(rivals)].name].append((now[0] - seen[0], now[1] - seen[1]))
        seen[:] = now
        turn += 1

    return count


def main() -> int:
    """Run both interleaved and print the ratios of their medians."""
    asked = options(__doc__ or "", nodes=16, quick_nodes=2)
    if shutil.which("mpirun") is None:
        raise SystemExit("mpirun is not installed (apt-get install openmpi-bin)")
    with nodes_and_folder(asked.nodes) as (farm, folder):
        inventory = farm.inventory(folder, socket_ifname="lo", slots=1)
        launched = Rival(
            "clusterctl launch -- true",
            (CLUSTERCTL, "launch", str(inventory), "--launcher", "openmpi", "--", "true"),
            ours(farm, folder),
        )
        typed = Rival("mpirun by hand", by_hand(farm, folder))
        counts: dict[str, list[tuple[int, int]]] = {typed.name: [], launched.name: []}
        count = counting(farm, (typed, launched), counts)
        take_turns((typed, launched), asked.rounds, folder, count)
        count()
        for name, found in counts.items():
            logins, commands = (
                statistics.median(values) / len(farm.nodes) for values in zip(*found, strict=True)
            )
            print(f"{name}: {logins:.1f} logins and {commands:.1f} commands on each node")
        inside = [
            json.loads(path.read_text())["launches"][0]["duration_s"]
            for path in sorted((folder / "runs").glob("*-launch-*/launch.json"))
        ]
        own = statistics.median(inside)
        goals = (
            Goal("wall time of launch over that of mpirun by hand", launched.wall / typed.wall, _MOST_RATIO, False),
            Goal("time of mpirun inside launch over that by hand", own / typed.wall, 1.0, False),
        )  # fmt: skip
        title = f"a program that does nothing, one rank on each of {asked.nodes} sshd nodes, {asked.rounds} rounds"
        return report(title, (typed, launched), goals)


if __name__ == "__main__":
    raise SystemExit(main())
