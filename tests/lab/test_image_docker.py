"""Images on a real engine: built from a plain Debian, one layer per change of the library, pushed, proven, refused."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import secrets
import socket
import subprocess
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import debian_base
import installed_clusterctl
import pytest
import yaml

from clusterctl.images import engine, wheel
from clusterctl.images.throwaway import LABEL

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

RUN = f"clusterctl-test-{secrets.token_hex(4)}"
LIBRARY = "/opt/clusterctl/library/python/collective_core/lib/libcollective_core.so"


@dataclass
class Images:
    """The engine, a base, and clusterctl's wheel in two versions that differ in nothing else."""

    client: object
    base: str
    wheels: tuple[Path, Path]
    run: object

    def package(self, version=0):
        path = self.wheels[version]
        return f"wheel={path}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}"

    def build(self, tag, *more, base=None, code=0):
        """Run ``image build --json`` and return its document."""
        done = self.run("image", "build", "--base", base or self.base, "--tag", f"{RUN}:{tag}", *more, "--json",
                        timeout_s=1000)  # fmt: skip
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def refusal(self, *more, tag="refused", **named):
        """Return the message and the hint of a build that is refused, and prove that nothing was left."""
        before = self.everything()
        error = self.build(tag, *more, code=9, **named)["error"]
        assert self.everything() == before
        assert error["hint"], error
        return error["message"], error["hint"]

    def everything(self):
        """Names of images and ids of containers: what a refused build must not add to."""
        tags = {tag for image in self.client.images.list() for tag in image.tags if tag.startswith(RUN)}
        made = self.client.containers.list(all=True, filters={"label": LABEL})
        return tags, [container.id for container in made]

    def of_files(self, tag, files, **settings):
        """Import an image of a few files (name to bytes and mode) and return its name."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for name, (content, mode) in files.items():
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), mode
                archive.addfile(member, io.BytesIO(content))
        self.client.api.import_image_from_data(data.getvalue(), repository=RUN, tag=tag, **settings)
        return f"{RUN}:{tag}"


@pytest.fixture(scope="module")
def _engine(docker_engine):
    with engine.connect() as client:
        yield client
        for container in client.containers.list(all=True, filters={"name": RUN}):
            container.remove(force=True, v=True)
        # One image keeps the layers of packages in the engine's cache for the next session.
        for image in client.images.list(f"{RUN}:one"):
            image.tag(debian_base.REPOSITORY, "cache")
        for image in client.images.list():
            for tag in image.tags:
                if RUN in tag:
                    client.images.remove(tag, force=True)


@pytest.fixture(scope="module")
def _wheels(tmp_path_factory):
    made = []
    for version in ("0.1.0", "0.1.1"):
        (folder := tmp_path_factory.mktemp(version) / "installed").mkdir()
        made.append(wheel.rebuild_from(installed_clusterctl.distribution(folder, version), folder.parent))
    return tuple(made)


@pytest.fixture
def images(_engine, _wheels, run_clusterctl):
    return Images(_engine, debian_base.ensure(_engine), _wheels, run_clusterctl)


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

    assert {finding["judgement"] for finding in first["findings"]} == {"fits"}
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


def put(box, path, data):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        folder = tarfile.TarInfo(str(Path(path).parent).lstrip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(folder)
        member = tarfile.TarInfo(path.lstrip("/"))
        member.size, member.mode = len(data), 0o600
        tar.addfile(member, io.BytesIO(data))
    box.put_archive("/", archive.getvalue())


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

    # Ranks that run are looked at in place of any that the proof would start.
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
    assert any("not there any more" in finding for finding in document["findings"])


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
    assert "there is no container" in errors["c"]
    assert "does not say which library" in errors["d"]
    document = prove(images, tmp_path, ("d", "plain"), code=1, more=("--library", "ccore"))
    assert document["findings"] == [
        "d: python3 is not in the container",
        "d: no process has the library ccore mapped",
    ]


def test_what_cannot_work_is_refused_and_leaves_nothing(images):
    package = ("--package", images.package(0))
    wrong = package[1].rpartition("=")[0] + "=" + "0" * 64
    message, _hint = images.refusal("--package", wrong)
    assert "is not the file that is wanted" in message
    message, hint = images.refusal(*package, base=f"127.0.0.1:9/{RUN}:none")
    assert "cannot be pulled" in message and "registry" in hint

    shell = Path("/bin/busybox").read_bytes()
    release = {
        "etc/os-release": (b'ID=alpine\nPRETTY_NAME="Alpine Linux"\n', 0o644),
        "bin/sh": (shell, 0o755),
    }
    musl = images.of_files("musl", {**release, "lib/ld-musl-x86_64.so.1": (b"", 0o755)})
    assert "has musl" in images.refusal(*package, base=musl)[0]
    assert (
        "neither of Debian's nor of the RHEL family"
        in images.refusal(*package, base=images.of_files("other", release))[0]
    )
    empty = images.of_files("empty", {"etc/empty": (b"", 0o644)})
    assert "has no shell" in images.refusal(*package, base=empty)[0]


def test_a_base_for_another_machine_is_refused(images):
    name = f"{RUN}:foreign"
    # What docker load takes is what another machine's docker save wrote.
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w"):
        pass
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": "arm64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    saved = io.BytesIO()
    with tarfile.open(fileobj=saved, mode="w") as archive:
        for file, data in (
            ("config.json", config),
            ("layer.tar", layer.getvalue()),
            ("manifest.json", manifest),
        ):
            member = tarfile.TarInfo(file)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    images.client.images.load(saved.getvalue())
    message, _hint = images.refusal("--package", images.package(0), base=name)
    assert "image for arm64" in message and "amd64" in message


def test_a_step_that_fails_says_its_output_and_what_to_do(images, tmp_path):
    # A mirror that is not there, and nothing cached of this base.
    apt = images.client.containers.create(images.base, ["true"], name=f"{RUN}-apt")
    try:
        put(apt, "/etc/apt/sources.list", b"deb http://127.0.0.1:9/debian bookworm main\n")
        apt.commit(RUN, "no-mirror")
    finally:
        apt.remove()
    message, hint = images.refusal("--package", images.package(0), base=f"{RUN}:no-mirror")
    assert "127.0.0.1:9" in message
    assert "--network host" in hint or "out of the engine's reach" in hint


def test_a_library_newer_than_the_base_is_refused_with_both_versions(images, tmp_path):
    source = tmp_path / "new.c"
    source.write_text("int answer(void) { return 42; }\n")
    library = tmp_path / "nccl_2.99" / "lib" / "libnccl.so.2.99.0"
    library.parent.mkdir(parents=True)
    subprocess.run(
        ("gcc", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.3", "-o", str(library), str(source)),
        check=True,
        timeout=60,
    )
    archive = tmp_path / "nccl_2.99.txz"
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(library.parent.parent, arcname="nccl_2.99")
    given = f"library={archive}#sha256={hashlib.sha256(archive.read_bytes()).hexdigest()}"
    message, _hint = images.refusal("--library", "nccl", "--package", given)
    assert "SONAME" in message and "libnccl.so.3, not libnccl.so.2" in message


def test_docker_gives_the_same_refusals_when_it_is_not_there(run_clusterctl):
    done = run_clusterctl(
        "image",
        "build",
        "--base",
        "debian:bookworm",
        "--tag",
        "x",
        env={"DOCKER_HOST": "unix:///nowhere.sock"},
    )
    assert done.returncode == 9
    assert "no docker engine answers" in done.stderr and "hint: " in done.stderr


def test_a_full_disk_is_named_with_another_place_to_use(images, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(small)), check=True, timeout=30)
    try:
        done = images.run(
            "image", "build", "--base", images.base, "--tag", f"{RUN}:full", "--package", images.package(0),
            env={"TMPDIR": str(small)},
        )  # fmt: skip
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(("umount", str(small)), check=True, timeout=30)
    assert done.returncode == 9
    assert "No space left on device" in done.stderr and "TMPDIR=" in done.stderr
