"""From nodes without any library to a measured collective, on real sshd nodes with a real environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import mesh_nodes
import pytest
import sshd_farm as farms

from clusterctl import core_wheel
from clusterctl.facts.subjects.python import ENVIRONMENT, INTERPRETER, MARK

ONLY = ("--only", "python,ssh-mesh,names")


class Bare:
    """Four nodes whose python3 has neither torch nor collective_core, and which no other node can log in to."""

    def __init__(self, mesh: mesh_nodes.Mesh, folder: Path) -> None:
        self.mesh, self.folder = mesh, folder
        self.env = {**os.environ, **mesh.env, "CLUSTERCTL_RUNS": str(folder / "runs")}
        lines = ["version: 1", "defaults:", f"  user: {mesh.user.name}"]
        lines += [f"  identity_file: {mesh.identity_file}", "  socket_ifname: eth0", "  slots: 1", "nodes:"]
        lines += [f"  - {{name: {n.name}, address: {n.address}, port: {n.port}}}" for n in mesh.nodes]
        (folder / "inventory.yaml").write_text("\n".join(lines) + "\n")

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            (str(Path(sys.executable).with_name("clusterctl")), *words),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env=self.env,
        )  # fmt: skip

    def clusterctl(self, *words: str, expect: int = 0) -> str:
        process = self.start(*words)
        out, err = process.communicate(timeout=300)
        assert process.returncode == expect, out + err
        return out


@pytest.fixture
def bare(tier_unavailable: Callable[[str], None], tmp_path: Path) -> Iterator[Bare]:
    if reason := mesh_nodes.missing():
        tier_unavailable(reason)
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")
    ready = subprocess.run(
        ("/usr/bin/python3", "-c", "import sys, venv; sys.exit(sys.version_info < (3, 10))"),
        capture_output=True, check=False,
    )  # fmt: skip
    if ready.returncode:
        tier_unavailable("/usr/bin/python3 is older than 3.10, or lacks venv (apt-get install python3)")
    with farms.temporary_user(sudo="(ALL) NOPASSWD: ALL", shell="/bin/bash") as user:
        mesh = mesh_nodes.start_mesh(user, (22, 22, 22, 22))
        try:
            yield Bare(mesh, tmp_path)
        finally:
            mesh.stop()


def test_bootstrap_brings_what_a_bench_needs_and_undo_takes_it_back(bare: Bare) -> None:
    assert core_wheel.carried() is not None
    before = [node.files() for node in bare.mesh.nodes]
    checked = bare.clusterctl("check", *ONLY, expect=1)
    assert "ready to launch: no (bootstrap fixes ssh-mesh, python; " in checked
    done = bare.clusterctl("bootstrap", "--yes", *ONLY)
    assert "good: names, ssh-mesh, python" in done
    checked = bare.clusterctl("check", *ONLY)
    assert "ready to launch: yes" in checked
    small = ("-b", "8", "-e", "1K", "-n", "2")
    measured = json.loads(
        bare.clusterctl("bench", "-np", "4", "--collective", "all_reduce", *small, "--json")
    )
    assert (measured["status"], measured["variants"][0]["library"], measured["launcher"]) == (
        "ok",
        "ccore",
        "openmpi",
    )
    assert [rank["rank"] for rank in measured["proof"]["ranks"]] == [0, 1, 2, 3]
    (only,) = measured["variants"]
    assert only["rows"] and all(row["wrong"] == 0 for row in only["rows"])
    # Nothing is left to do.
    assert "good: names, ssh-mesh, python" in bare.clusterctl("bootstrap", "--yes", *ONLY)
    bare.clusterctl("undo", "--yes")
    assert [node.files() for node in bare.mesh.nodes] == before
    failed = bare.start("bench", "-np", "4", *small)
    _, said = failed.communicate(timeout=120)
    assert failed.returncode == 10 and "collective_core is not installed for /usr/bin/python3" in said
    assert "run clusterctl bootstrap --only python; or choose --library gloo" in said


def test_an_installation_that_was_killed_is_made_again_and_undone(bare: Bare) -> None:
    node, words = bare.mesh.nodes[0], ("--only", "python", "--limit", "gpu01")
    before = node.files()
    mark = node.folder / ENVIRONMENT[1:] / MARK
    for _ in range(10):
        process = bare.start("bootstrap", "--yes", *words)
        # The module venv makes this link first; then the wheel is unpacked.
        while process.poll() is None and not os.path.lexists(node.folder / INTERPRETER[1:]):
            time.sleep(0.01)
        node.kill_sessions()
        out, err = process.communicate(timeout=120)
        if process.returncode != 0:
            break
        bare.clusterctl("undo", "--yes", "--limit", "gpu01")  # it was faster than the kill
    assert process.returncode != 0, out + err
    run, content = mark.read_text().splitlines()
    assert content == "" and run.split("-")[1] == "bootstrap"
    assert "is incomplete, because its installation was interrupted" in bare.clusterctl(
        "check", *words, expect=1
    )
    # Another run makes it again; undo of either run leaves nothing.
    assert "good: python" in bare.clusterctl("bootstrap", "--yes", *words)
    assert node.run(INTERPRETER, "-c", "import collective_core").returncode == 0
    bare.clusterctl("undo", "--yes", "--limit", "gpu01")
    bare.clusterctl("undo", "--yes", "--limit", "gpu01", "--run", run)
    assert node.files() == before
