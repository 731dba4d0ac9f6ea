"""A node on which another run works is named before the question, left out of the plan, and counted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from terminal_session import TerminalSession

from clusterctl.inventory.model import Node
from clusterctl.transport.connect import Connector

OWN = ("/etc/sysconfig", "/var/lib/clusterctl")
"""Directories that each node has for itself."""


@pytest.fixture
def farm(sshd_farm, tmp_path):
    found = sshd_farm(2, prefix="gpu", private=OWN)
    wanted = {"cluster_file": {"path": "/etc/sysconfig/rdma/cluster", "content": "A=1\n"}}
    found.inventory(tmp_path, requirements=json.dumps(wanted))
    return found


@contextmanager
def working(farm, name: str) -> Iterator[None]:
    """Let a process of this machine hold the lock of a node, as the runner of a bootstrap does."""
    node = farm.node(name)
    with subprocess.Popen(("sleep", "600")) as holder:
        started = Path(f"/proc/{holder.pid}/stat").read_text().rpartition(")")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        lock = f"{holder.pid} {started} {boot} 20260101T000000Z-bootstrap-abcd alice@jump bootstrap"
        there = Node(
            name=name, address=node.address, port=node.port, user=farm.user,
            identity_file=str(farm.identity_file), known_hosts=str(farm.known_hosts),
        )  # fmt: skip
        transport = Connector()(there)
        script = 'mkdir -p "$1" && printf "%s\\n" "$2" >"$1/lock" && touch -d "-20 seconds" "$1/lock"'
        assert transport.run(("sh", "-c", script, "sh", "/var/lib/clusterctl", lock)).returncode == 0
        try:
            yield
        finally:
            holder.kill()
            transport.run(("rm", "-f", "/var/lib/clusterctl/lock"))
            transport.close()


def test_bootstrap_and_undo_leave_a_busy_node_out(farm, clusterctl, run_clusterctl, tmp_path):
    words = ("--only", "cluster-file")

    def typed(*command: str, question: str) -> str:
        with TerminalSession((str(clusterctl), *command), cwd=tmp_path, env=farm.env, columns=110) as at:
            at.until(rf"{question}.*\[y/N\]")
            before = at.screen
            at.type("y\n")
            assert at.ended() == 1
            said = at.screen
        assert "gpu02: error: busy: bootstrap of alice@jump since" in before
        assert "failed: 1 node (gpu02)" in said
        return said

    with working(farm, "gpu02"):
        said = typed("bootstrap", *words, question="Apply 1 change")
        assert "changed: 1, failed: 1 node (gpu02)" in said
        assert "once the other run on gpu02 has ended" in said
    done = run_clusterctl("bootstrap", "--resume", "latest", "--yes", env=farm.env)
    assert done.returncode == 0 and "changed: 2" in done.stdout, done.stdout + done.stderr
    with working(farm, "gpu02"):
        said = typed("undo", question="Undo on 1 node")
        assert "changed: 1, failed: 1 node (gpu02)" in said
    done = run_clusterctl("undo", "--yes", env=farm.env)
    assert done.returncode == 0 and "changed: 1, failed: 0" in done.stdout, done.stdout + done.stderr


def test_a_bootstrap_of_busy_nodes_alone_asks_nothing(farm, run_clusterctl):
    with working(farm, "gpu01"), working(farm, "gpu02"):
        done = run_clusterctl("bootstrap", "--yes", "--only", "cluster-file", "--json", env=farm.env)
    document = json.loads(done.stdout)
    assert done.returncode == 1 and document["summary"]["failed"] == 2 and not document["summary"]["changed"]
    assert all(node["error"]["message"].startswith("busy: bootstrap of") for node in document["nodes"])
