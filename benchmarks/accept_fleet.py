"""What `accept` costs on many nodes: 20 s of node-local rows on 1 and on 64 real sshd nodes of this machine.

    python benchmarks/accept_fleet.py [NODES]

The rows sleep, so that the difference is the cost of logins, facts, commands and records.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from sshd_farm import start_farm

from clusterctl.acceptance import catalog
from clusterctl.acceptance.model import AcceptRow, NodeProgram, Parsed, RowCommand, RowPlace, Tier
from clusterctl.cli import main as cli

ROWS, SLEEP_S = 4, 5


def nothing(_: str) -> Parsed:
    """Read nothing."""
    return Parsed()


def sleeping(_: RowPlace) -> RowCommand:
    """Return the command of each row."""
    return RowCommand(("sleep", str(SLEEP_S)))


def main() -> None:
    """Print the wall time for one node and for all."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    work = NodeProgram(sleeping, nothing, 60.0)
    catalog.ROWS = tuple(AcceptRow(f"sleep-{i}", "sleeps", Tier.VALIDATION, work) for i in range(ROWS))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        farm = start_farm(nodes)
        stack.callback(farm.stop)
        os.environ |= {**farm.env, "CLUSTERCTL_RUNS": f"{folder}/runs"}
        inventory = str(farm.inventory(Path(folder)))
        for count in (1, nodes):
            names = ",".join(node.name for node in farm.nodes[:count])
            began = time.monotonic()
            with contextlib.redirect_stdout(io.StringIO()):
                status = cli.main(["accept", inventory, "--limit", names, "-q"])
            assert status == 0, status
            print(
                f"{count:3} nodes: {time.monotonic() - began:.1f} s for {ROWS * SLEEP_S} s of rows",
                flush=True,
            )


if __name__ == "__main__":
    main()
