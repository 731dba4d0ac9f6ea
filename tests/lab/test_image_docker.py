"""Images on a real engine: built from a plain Debian, one layer per change of the library, and proven on ranks."""

from __future__ import annotations

import contextlib
import json
import platform
import re
import socket
import subprocess
import time

import built_images
import debian_base
import pytest
import yaml
from built_images import RUN, Images, put

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

LIBRARY = "/opt/clusterctl/library/python/collective_core/lib/libcollective_core.so"


@pytest.fixture(scope="module")
def _engine(docker_engine):
    with built_images.clean_engine() as client:
        yield client


@pytest.fixture
def images(_engine, core_wheels, run_clusterctl):
    return Images(_engine, debian_base.ensure(_engine), core_wheels, run_clusterctl)


@pytest.fixture
def container(images):
    """Start containers as ``up`` does: sshd in the foreground, with host keys of their own."""

    def start(image, name, command=("/opt/clusterctl/bin/start-sshd",)):
        return images.client.containers.run(image, list(command), name=f"{RUN}-{name}", detach=True)

    yield start
    for made in images.client.containers.list(all=True, filters={"name": RUN}):
        made.remove(force=True, v=True)


def test_another_version_of_the_library_is_one_other_layer(images):
    first = images.build("one", "--package", images.package(0))
    second = images.build("two", "--package", images.package(1))
    assert (first["library"]["version"], second["library"]["version"]) == ("0.1.0", "0.1.1")
    assert first["layers"][:-1] == second["layers"][:-1]
    assert first["layers"][-1] != second["layers"][-1]
    again = images.build("one", "--package", images.package(0))
    assert again["id"] == first["id"]

    # A package that was built beside nvcc has GPU code, and no node has a known GPU to compare it with.
    judged = {finding["judgement"] for finding in first["findings"] if finding["what"] != "GPU code"}
    assert judged == {"fits"}
    contents = {(entry["kind"], entry["name"]) for entry in first["contents"]}
    assert {
        ("deb", "openssh-server"), ("deb", "openmpi-bin"), ("deb", "libibverbs1"), ("deb", "ibverbs-providers"),
        ("deb", "librdmacm1"), ("deb", "python3"), ("rdma-provider", "mlx5"), ("program", "sshd"),
        ("program", "mpirun"),
    } <= contents  # fmt: skip
    assert "host-key" not in {kind for kind, _name in contents}

    labels = images.client.images.get(f"{RUN}:two").labels
    assert labels["clusterctl.library"] == "ccore"
    assert labels["clusterctl.library.version"] == labels["org.opencontainers.image.version"] == "0.1.1"
    assert labels["clusterctl.library.sha256"] == second["library"]["sha256"]
    assert labels["org.opencontainers.image.base.name"] == images.base


def test_the_manifest_in_the_image_is_true_of_its_files(images, container):
    built = images.build("one", "--package", images.package(0))
    box = container(f"{RUN}:one", "manifest", ("sleep", "300"))
    manifest = json.loads(box.exec_run(["cat", "/opt/clusterctl/library/manifest.json"]).output)
    assert manifest["packages"] == built["library"]["packages"]
    sums = "".join(
        f"{file['sha256']}  /opt/clusterctl/library/{file['path']}\n" for file in manifest["files"]
    )
    checked = box.exec_run(["sh", "-c", f"sha256sum -c --quiet <<'E'\n{sums}E"])
    assert checked.exit_code == 0, checked.output
    listed = {file["path"]: file for file in manifest["files"]}
    assert listed[LIBRARY.removeprefix("/opt/clusterctl/library/")]["sha256"] == built["library"]["sha256"]
    # Python finds it without being told, also in a session over SSH, which has none of docker's variables.
    found = box.exec_run(
        [
            "env",
            "-u",
            "PYTHONPATH",
            "python3",
            "-c",
            "import collective_core; print(collective_core.__file__)",
        ]
    )
    assert found.output.decode().strip() == "/opt/clusterctl/library/python/collective_core/__init__.py"


def test_each_container_has_host_keys_of_its_own_and_sessions_the_images_variables(
    images, container, tmp_path
):
    images.build("one", "--package", images.package(0))
    subprocess.run(
        ("ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", str(tmp_path / "key")), check=True, timeout=30
    )
    keys = set()
    for name in ("first", "second"):
        box = container(f"{RUN}:one", name)
        put(box, "/root/.ssh/authorized_keys", (tmp_path / "key.pub").read_bytes())
        box.reload()
        address = next(iter(box.attrs["NetworkSettings"]["Networks"].values()))["IPAddress"]
        wait_for_port(address, 22)
        scanned = box.exec_run(["cat", "/etc/ssh/ssh_host_ed25519_key.pub"]).output.decode().split()[1]
        keys.add(scanned)
        (tmp_path / "known_hosts").write_text(f"{address} ssh-ed25519 {scanned}\n")
        done = subprocess.run(
            ("ssh", "-F", "none", "-i", str(tmp_path / "key"), "-o", f"UserKnownHostsFile={tmp_path}/known_hosts",
             "-o", "BatchMode=yes", f"root@{address}", "echo $PYTHONPATH; command -v mpirun orted"),
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.stdout.split() == [
            "/opt/clusterctl/library/python",
            "/usr/bin/mpirun",
            "/usr/bin/orted",
        ], done.stderr
    assert len(keys) == 2


def wait_for_port(address, port, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=2):
            return
        assert time.monotonic() < deadline, f"nothing listens at {address}:{port}"
        time.sleep(0.1)


def prove(images, tmp_path, *nodes, code, more=()):
    """Run ``image prove`` on this machine as several nodes; each is (name, container)."""
    document = {
        "version": 1,
        "nodes": [
            {"name": name, "connection": "local", "slots": 2, "container": {"name": f"{RUN}-{box}"}}
            for name, box in nodes
        ],
    }
    path = tmp_path / "inventory.yaml"
    path.write_text(yaml.safe_dump(document))
    done = images.run("image", "prove", "-i", str(path), *more, "--json")
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


# A rank as mpirun starts it, for as long as the container lives.
RANK = """
import os, time
from pathlib import Path
import collective_core._lib as core
core.library()
Path("/tmp/ready-" + os.environ["OMPI_COMM_WORLD_RANK"]).touch()
time.sleep(600)
"""


def start_rank(box, rank, timeout_s=60, **variables):
    environment = {"OMPI_COMM_WORLD_RANK": str(rank), **variables}
    box.exec_run(["python3", "-c", RANK], environment=environment, detach=True)
    deadline = time.monotonic() + timeout_s
    while box.exec_run(["test", "-e", f"/tmp/ready-{rank}"]).exit_code != 0:
        assert time.monotonic() < deadline, f"rank {rank} does not load the library"
        time.sleep(0.2)


def test_the_proof_names_the_node_whose_library_is_another(images, container, tmp_path):
    built = images.build("one", "--package", images.package(0))
    boxes = [container(f"{RUN}:one", name) for name in ("a", "b", "c")]
    nodes = tuple((f"node-{name}", name) for name in ("a", "b", "c"))
    document = prove(images, tmp_path, *nodes, code=0)
    assert (document["status"], document["findings"]) == ("ok", [])
    for node in document["nodes"]:
        assert node["started"] and node["versions"] == ["collective_core 0.1.0"]
        assert [rank["rank"] for rank in node["ranks"]] == ["slot 0", "slot 1"]
        assert {(rank["path"], rank["sha256"]) for rank in node["ranks"]} == {
            (LIBRARY, built["library"]["sha256"])
        }

    # Ranks that run are looked at instead of any that the proof would start.
    for rank, box in enumerate(boxes):
        start_rank(box, rank)
    document = prove(images, tmp_path, *nodes, code=0)
    assert [[rank["rank"] for rank in node["ranks"]] for node in document["nodes"]] == [["0"], ["1"], ["2"]]

    # Another build of the library, which CCORE_LIBRARY brought in.
    boxes[1].exec_run(
        ["sh", "-c", f"cp {LIBRARY} /tmp/libcollective_core.so; echo >>/tmp/libcollective_core.so"]
    )
    start_rank(boxes[1], 3, CCORE_LIBRARY="/tmp/libcollective_core.so")
    document = prove(images, tmp_path, *nodes, code=1)
    assert document["status"] == "failed"
    assert all(finding.startswith("node-b: ") for finding in document["findings"]), document["findings"]
    assert any("/tmp/libcollective_core.so" in finding for finding in document["findings"])

    # The image's file replaced under a rank that runs.
    boxes[2].exec_run(["sh", "-c", f"cp {LIBRARY} /tmp/new; mv /tmp/new {LIBRARY}"])
    document = prove(images, tmp_path, nodes[2], code=1)
    assert any("has been removed" in finding for finding in document["findings"])


def test_the_proof_says_where_there_is_nothing_to_look_into(images, container, tmp_path):
    images.build("one", "--package", images.package(0))
    container(f"{RUN}:one", "runs", ("sleep", "300"))
    container(f"{RUN}:one", "ended", ("true",)).wait(timeout=60)
    container(images.base, "plain", ("sleep", "300"))
    document = prove(
        images, tmp_path, ("a", "runs"), ("b", "ended"), ("c", "nowhere"), ("d", "plain"), code=1
    )  # fmt: skip
    errors = {node["name"]: node["error"] for node in document["nodes"]}
    assert errors.pop("a") is None
    assert "does not run" in errors["b"]
    assert "not found" in errors["c"]
    assert "does not say which library" in errors["d"]
    document = prove(images, tmp_path, ("d", "plain"), code=1, more=("--library", "ccore"))
    assert document["findings"] == [
        "d: python3 is not in the container",
        "d: no process has the library ccore mapped",
    ]


def test_the_versions_in_the_image_stand_beside_those_of_the_host(images):
    built = images.build("one", "--package", images.package(0))
    done = images.run("image", "show", f"{RUN}:one", "--json")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    shown = json.loads(done.stdout)
    rows = {row["name"]: row for row in shown["versions"]["rows"]}

    def in_image(name):
        return [one["version"] for one in rows[name]["image"]]

    assert in_image("OS") == [built["base"]["os"]]
    version = built["library"]["version"]
    assert in_image("library") == [f"ccore {version}, collective-core {version}"]
    contents = {(entry["kind"], entry["name"]): entry["version"] for entry in built["contents"]}
    upstream = contents["deb", "libibverbs1"].partition("-")[0]
    assert in_image("RDMA libraries") == [f"rdma-core {upstream}"]
    assert in_image("Python")[0].startswith("3.")
    assert [one["version"] for one in rows["kernel"]["host"]] == [platform.release()]
    assert rows["kernel"]["image"] == []
    assert images.client.containers.list(all=True, filters={"ancestor": f"{RUN}:one"}) == []

    table = images.run("image", "show", f"{RUN}:one")
    assert re.search(r"^version of +image +host$", table.stdout, re.MULTILINE), table.stdout
    lacking = images.run("image", "show", f"{RUN}:nowhere")
    assert (lacking.returncode, lacking.stdout) == (9, "")
    assert f"does not have the image {RUN}:nowhere" in lacking.stderr
