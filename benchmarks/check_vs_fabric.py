"""Time ``clusterctl check`` against one bare ``fabric`` exec per node of the same probe, on the same sshd nodes.

Every node is an sshd of its own on a loopback address (root is needed). fabric checks no host key, parses
nothing and judges nothing; it is given the same number of threads.

    python benchmarks/check_vs_fabric.py [--nodes 256] [--rounds 3] [--quick] [--venv DIR]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from side_by_side import (
    CLUSTERCTL,
    Goal,
    Rival,
    nodes_and_folder,
    options,
    ours,
    report,
    rivals_in,
    take_turns,
    versions,
)

from clusterctl.facts import probe


def main() -> int:
    """Measure, print the table, and return 1 when a goal is missed."""
    chosen = options("clusterctl check against a bare fabric exec", 256, 32)
    with nodes_and_folder(chosen.nodes) as (farm, folder):
        programs = rivals_in(chosen.venv or folder / "venv", "fabric")
        (folder / "nodes").write_text(
            "".join(f"{node.address} {node.port} {farm.user} {farm.identity_file}\n" for node in farm.nodes)
        )
        (folder / "probe").write_text(probe.build_script("a" * 32))

        def all_checked(output: str) -> None:
            found = json.loads(output)["summary"]["unreachable"]
            if found:
                raise SystemExit(f"clusterctl: {found} nodes did not answer")

        def all_answered(output: str) -> None:
            if int(output) != len(farm.nodes):
                raise SystemExit(f"fabric: {output.strip()} of {len(farm.nodes)} nodes answered")

        check = Rival(
            "clusterctl check --json",
            (CLUSTERCTL, "check", str(farm.inventory(folder)), "--json"), ours(farm, folder), (0, 1), all_checked,
        )  # fmt: skip
        bare = Rival(
            "fabric, bare exec of the same probe",
            (str(programs / "python"), str(Path(__file__).with_name("fabric_exec.py")), str(folder / "nodes"),
             str(folder / "probe")),
            proof=all_answered,
        )  # fmt: skip
        take_turns((check, bare), chosen.rounds, folder, lambda: None)
        names = versions(programs, "fabric", "paramiko")
    return report(
        f"{chosen.nodes} sshd nodes, medians of {chosen.rounds}; {names}",
        (check, bare),
        (
            Goal("speed, x bare fabric", bare.wall / check.wall, 0.77, True),
            Goal("client CPU per node", 1000 * check.cpu / chosen.nodes, 12, False, " ms"),
            Goal("peak memory", max(check.peak_mb), 150, False, " MB"),
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
