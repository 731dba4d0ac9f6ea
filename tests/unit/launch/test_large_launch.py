"""Launches of many ranks: what they write, and the files that are open for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

# As a process of its own, because its limits are lowered: a launch whose ranks' lines a small program writes.
LAUNCH = """
import resource, sys
from pathlib import Path
from clusterctl.inventory.model import Node
from clusterctl.launch.base import LaunchPlan, Placement
from clusterctl.launch.launchers.local import LocalSpawn
from clusterctl.launch.run import Runner
from clusterctl.transport.local import LocalTransport

np, line_bytes, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
here = Node(name="here", address="localhost", connection="local")

class Writes(LocalSpawn):
    def argv(self, plan):
        text = f"for rank in range({np}): print(f'[f00d,{{rank}}]<stdout>:' + 'x' * {line_bytes})"
        return (sys.executable, "-c", text)

with Runner([here], LocalTransport) as runner:
    (folder / "launch").mkdir()
    plan = LaunchPlan(
        launcher=Writes(), token=runner.token, mark="f00d",
        directory=str(folder / "launch"), program=("true",), env=(), map_by="slot",
        placements=(Placement("here", "here", "localhost", None, None, np),), interfaces=None, timeout_s=60.0,
    )
    outcome = runner.run(plan, folder)
print(outcome.returncode, len(outcome.stdout_by_rank), outcome.lost_nodes, outcome.broken_off)
"""


@pytest.mark.parametrize(("ranks", "line_bytes"), [(300, 10), (70, 1 << 20)])
def test_every_rank_is_heard_to_its_end(ranks, line_bytes, tmp_path):
    """More ranks than a process may open files by default; more text than one command of a node may write."""
    done = subprocess.run(
        (sys.executable, "-c", LAUNCH, str(ranks), str(line_bytes), str(tmp_path)),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout == f"0 {ranks} {{}} None\n", done.stderr
    assert (tmp_path / f"rank-{ranks - 1}.log").stat().st_size == line_bytes + 1


def test_ranks_that_write_too_much_are_no_lost_node(tmp_path):
    done = subprocess.run(
        (sys.executable, "-c", LAUNCH, "1", str(80 << 20), str(tmp_path)),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("None ") and "{} Failure(" in done.stdout, done.stderr
    assert "wrote more than 66 MiB" in done.stdout
