"""The lab's containers: they are real, and what the other lab tests believe them to be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clusterctl import lab as labs
from clusterctl.errors import LabError
from clusterctl.lab import LabOptions, containers
from clusterctl.lab.containers import LABEL

MPI = (
    "mpirun --allow-run-as-root --host node1,node2 -np 2"
    " --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 hostname"
)


def test_containers_reach_each_other_and_start_mpi(docker_lab):
    for node, peer in (("node1", "node2"), ("node2", "node1")):
        address = docker_lab.lab.node(peer).fabric_address
        assert docker_lab.output(node, f"ssh -o BatchMode=yes {peer} hostname") == peer
        assert docker_lab.output(node, f"ssh -o BatchMode=yes {address} hostname") == peer
    ranks = docker_lab.output("node1", MPI)
    assert sorted(ranks.split()) == ["node1", "node2"]


def test_containers_run_this_python_with_its_packages(docker_lab):
    assert docker_lab.lab.python == sys.executable
    script = "import clusterctl, platform; print(clusterctl.__file__, platform.python_version())"
    for node in ("node1", "node2"):
        found, version = docker_lab.output(node, f'{sys.executable} -c "{script}"').split()
        assert Path(found).samefile(Path(labs.__file__).parents[1] / "__init__.py")
        assert version == ".".join(map(str, sys.version_info[:3]))
        assert docker_lab.run(node, f"touch {sys.prefix}/written", check=False).returncode != 0


def test_a_container_that_was_killed_starts_again(docker_lab):
    docker_lab.run("node2", "echo kept > /root/kept")
    docker_lab.kill("node2")
    try:
        assert [entry.running for entry in labs.status(docker_lab.lab.directory).nodes] == [True, False]
    finally:
        docker_lab.start("node2")
    assert docker_lab.output("node2", "cat /root/kept; rm /root/kept") == "kept"


def test_down_removes_containers_network_and_files(docker_engine, docker_lab, tmp_path):
    (tmp_path / "data").mkdir()
    folder = tmp_path / "lab"
    mount = labs.BindMount.parse(f"{tmp_path / 'data'}:/data")
    lab = labs.up(LabOptions(driver="docker", nodes=1, directory=folder, mounts=(mount,)))
    label = {"label": f"{LABEL}={lab.lab_id}"}
    (folder / "mine").write_text("a file of the user's own")
    with containers.engine() as client:
        subprocess.run(lab.ssh_argv("node1", "echo here > /data/proof"), check=True, timeout=60)
        assert len(client.containers.list(filters=label)) == 1
        with pytest.raises(LabError, match="already"):
            labs.up(LabOptions(driver="docker", nodes=1, directory=folder))
        assert labs.down(folder) is True
        assert client.containers.list(all=True, filters=label) == []
        assert client.networks.list(filters=label) == []
        assert len(client.containers.list(filters={"label": f"{LABEL}={docker_lab.lab.lab_id}"})) == 2
    assert (tmp_path / "data" / "proof").read_text() == "here\n"
    assert [path.name for path in folder.iterdir()] == ["mine"]
