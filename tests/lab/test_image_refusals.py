"""Images that cannot be built, on a real engine: refused with what to do, and nothing is left of the attempt."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

import built_images
import debian_base
import pytest
from built_images import RUN, Images, put

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def _engine(docker_engine):
    with built_images.clean_engine() as client:
        yield client


@pytest.fixture
def images(_engine, core_wheels, run_clusterctl):
    return Images(_engine, debian_base.ensure(_engine), core_wheels, run_clusterctl)


def test_what_cannot_work_is_refused_and_leaves_nothing(images):
    package = ("--package", images.package(0))
    wrong = package[1].rpartition("=")[0] + "=" + "0" * 64
    message, _hint = images.refusal("--package", wrong)
    assert ", expected " in message and "has the sha256" in message
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
    # A mirror that does not exist, and nothing cached of this base.
    apt = images.client.containers.create(images.base, ["true"], name=f"{RUN}-apt")
    try:
        put(apt, "/etc/apt/sources.list", b"deb http://127.0.0.1:9/debian bookworm main\n")
        apt.commit(RUN, "no-mirror")
    finally:
        apt.remove()
    message, hint = images.refusal("--package", images.package(0), base=f"{RUN}:no-mirror")
    assert "127.0.0.1:9" in message
    assert "--network host" in hint or "the engine cannot reach the registry" in hint


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
