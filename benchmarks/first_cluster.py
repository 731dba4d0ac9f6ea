"""Time of the way of README, from its installation to the first table of bench, on four bare nodes.

The commands are those of README.md, typed at a terminal, with the answers that the page shows. The nodes are the root
filesystem of the lab's bare guests in namespaces, with a repository of packages; collective_core comes as the wheel
that this Python has installed, as it would from an index. Needs root and an installation by `make dev`.

    python benchmarks/first_cluster.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import bare_nodes  # noqa: E402
from recorded_session import shown_in  # noqa: E402
from typed_page import Reader, installer  # noqa: E402

GOAL_S = 180.0


def main() -> None:
    """Type README up to the first benchmark, and print the seconds of each command."""
    install, *steps = shown_in((ROOT / "README.md").read_text(encoding="utf-8"))
    last = next(number for number, step in enumerate(steps) if step.command.startswith("clusterctl bench"))
    with tempfile.TemporaryDirectory(prefix="first-cluster-") as folder, bare_nodes.bare_nodes(4) as nodes:
        home = Path(folder)
        env = installer(home)
        env["CLUSTERCTL_SSH_CONFIG"] = str(nodes.farm.directory / "ssh_config")
        env["CLUSTERCTL_KNOWN_HOSTS"] = str(home / "known_hosts")
        (home / "known_hosts").touch()
        (home / "cluster").mkdir()
        at_node = Reader(home / "cluster", env, nodes.controller)
        took = []
        for step, reader in [(install, Reader(ROOT, env)), *((step, at_node) for step in steps[: last + 1])]:
            began = time.monotonic()
            screen = reader.types(step)
            took.append(time.monotonic() - began)
            print(f"{took[-1]:6.1f} s  {step.command}", flush=True)
        if "Avg bus bandwidth" not in screen:
            raise SystemExit(f"no table:\n{screen}")
    total = sum(took)
    print(
        f"{total:6.1f} s  {len(took)} commands, {total / GOAL_S:.2f} of {GOAL_S:.0f} s; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
