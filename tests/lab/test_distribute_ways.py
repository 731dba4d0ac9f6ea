"""Every way to two nodes with engines of their own: a registry, one that refuses, none; and what stands in each way."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import secrets
import subprocess
import tarfile
import time
from contextlib import ExitStack, contextmanager

import docker_registry
import node_image
import pytest
from lab_shell import on_node_of

from clusterctl import lab as labs
from clusterctl.images import engine
from clusterctl.lab import LabOptions

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1200)]

NODES = ("node1", "node2")
PASSWORD = f"planted-{secrets.token_hex(8)}"
LEFT = "ls -d /var/tmp/clusterctl-*/* /tmp/clusterctl-* 2>/dev/null; grep restrict ~/.ssh/authorized_keys"
SIZE_BYTES = 6 << 20
# Comes before the real docker, which still does all the rest.
OLD_DOCKER = r"""cat >/usr/local/bin/docker <<'E'
#!/bin/sh
[ "$1" = info ] || exec /usr/bin/docker "$@"
/usr/bin/docker "$@" | sed 's/"ServerVersion":"[^"]*"/"ServerVersion":"19.03.15"/'
E
chmod +x /usr/local/bin/docker"""


@pytest.fixture(scope="module")
def registries(docker_engine, tmp_path_factory):
    """An open registry, and one that wants an account; engines take both without TLS on 127.0.0.1."""
    with ExitStack() as stack:
        yield (
            stack.enter_context(docker_registry.started(tmp_path_factory.mktemp("open"))),
            stack.enter_context(
                docker_registry.started(tmp_path_factory.mktemp("closed"), user="ci", password=PASSWORD)
            ),
        )


@pytest.fixture(scope="module")
def lab(registries, tmp_path_factory):
    """Two nodes that reach the registries at the same address as this machine: through SSH's own tunnels."""
    folder = tmp_path_factory.mktemp("ways") / "lab"
    found = labs.up(LabOptions(driver="docker", nodes=2, directory=folder, engines=True))
    tunnels = []
    try:
        for node in NODES:
            tunnel = [word for address in registries for word in ("-R", f"{address}:{address}")]
            argv = found.ssh_argv(node)
            tunnels.append(
                subprocess.Popen((*argv[:-2], *tunnel, "-o", "ExitOnForwardFailure=yes", "-N", argv[-2]))
            )
        yield found
    finally:
        for process in tunnels:
            process.terminate()
            process.wait(20)
        labs.down(folder)


@pytest.fixture
def on_node(lab):
    return on_node_of(lab)


@pytest.fixture
def distribute(run_clusterctl, lab, tmp_path):
    """Run ``image distribute`` and return its document, the nodes of it by their names, and what it said."""

    def run(name, *words, code=0, env=None):
        done = run_clusterctl(
            "image", "distribute", name, "-i", str(lab.inventory_path), "--json", *words,
            env={"XDG_CACHE_HOME": str(tmp_path / "cache"), **(env or {})},
        )  # fmt: skip
        said = f"{done.stdout}\n{done.stderr}"
        assert PASSWORD not in said
        assert done.returncode == code, said
        document = json.loads(done.stdout)
        return document, {node["name"]: node for node in document.get("nodes", ())}, done.stderr

    return run


@contextmanager
def image(name):
    """An image of this machine's engine that no node has."""
    repository, _, tag = name.rpartition(":")
    with engine.connect() as client:
        client.api.import_image_from_data(_tar({"random": secrets.token_bytes(64)}), repository, tag=tag)
        try:
            yield name
        finally:
            client.images.remove(name, force=True)


def _tar(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def wait_for_registry(on_node, address):
    """A tunnel is up some time after its client began."""
    deadline = time.monotonic() + 60
    host, _, port = address.partition(":")
    for node in NODES:
        while on_node(node, f"bash -c ': </dev/tcp/{host}/{port}' && echo up") != "up":
            assert time.monotonic() < deadline, f"{node} does not reach {address}"
            time.sleep(0.2)


def test_what_a_registry_has_is_pulled_by_default(run_clusterctl, distribute, on_node, registries):
    address = registries[0]
    wait_for_registry(on_node, address)
    with image(f"{address}/team/train:1") as name:
        pushed = run_clusterctl("image", "push", name)
        assert pushed.returncode == 0, pushed.stderr
        document, nodes, _ = distribute(name)
        assert (document["method"], document["controller_bytes"]) == ("registry", 0)
        assert {(node["status"], node["source"]) for node in nodes.values()} == {("pulled", "registry")}
        ids = {on_node(node, f"docker image inspect -f '{{{{.Id}}}}' {name}") for node in NODES}
        assert ids == {document["id"]}
        _, nodes, _ = distribute(name)
        assert {node["status"] for node in nodes.values()} == {"present"}
        # By the digest that push printed, which no saved image keeps.
        _, nodes, _ = distribute(pushed.stdout.strip())
        assert {node["status"] for node in nodes.values()} <= {"present", "pulled"}
        refused, _, _ = distribute(pushed.stdout.strip(), "--method", "tree", code=9)
        assert "which a saved image does not keep" in refused["error"]["message"]


def test_a_tag_that_does_not_exist_is_named_on_every_node(distribute, on_node, registries):
    wait_for_registry(on_node, registries[0])
    _, nodes, said = distribute(f"{registries[0]}/team/train:none", "--method", "registry", code=9)
    assert {node["status"] for node in nodes.values()} == {"failed"}
    assert all("cannot be pulled" in node["error"] for node in nodes.values())
    assert "hint: this tag does not exist" in said


def test_where_the_registry_refuses_the_image_comes_from_this_machine(
    run_clusterctl, distribute, on_node, registries, tmp_path
):
    address = registries[1]
    wait_for_registry(on_node, address)
    auth = base64.b64encode(f"ci:{PASSWORD}".encode()).decode()
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/config.json").write_text(json.dumps({"auths": {address: {"auth": auth}}}))
    env = {"DOCKER_CONFIG": str(tmp_path / "docker")}
    with image(f"{address}/team/train:1") as name:
        assert run_clusterctl("image", "push", name, env=env).returncode == 0
        # This machine is logged in; the nodes are not.
        _, nodes, said = distribute(name, "--method", "registry", code=9, env=env)
        assert {node["status"] for node in nodes.values()} == {"failed"}
        assert "docker login" in said
        document, nodes, said = distribute(name, env=env)
        assert document["method"] == "tree"
        assert {node["status"] for node in nodes.values()} == {"received"}
        assert "2 nodes cannot pull" in said and "this machine sends the image to them" in said
    assert [on_node(node, LEFT) for node in NODES] == ["", ""]


def test_an_image_for_another_machine_is_not_sent(distribute, on_node):
    name = f"clusterctl-ways-{secrets.token_hex(4)}:arm64"
    layer = _tar({})
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "arm64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }  # fmt: skip
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    saved = _tar(
        {
            "config.json": json.dumps(config).encode(),
            "layer.tar": layer,
            "manifest.json": json.dumps(manifest).encode(),
        }
    )
    with engine.connect() as client:
        client.images.load(saved)
        try:
            document, nodes, said = distribute(name, code=9)
        finally:
            client.images.remove(name, force=True)
    assert document["controller_bytes"] == 0
    assert all(node["error"].endswith("is for arm64") for node in nodes.values())
    assert "build the image for that architecture" in said
    assert [on_node(node, LEFT) for node in NODES] == ["", ""]


@pytest.fixture
def large(docker_engine):
    """An image whose archive is larger than the disks of the tests."""
    name = f"clusterctl-ways-{secrets.token_hex(4)}:large"
    with engine.connect() as client:
        node_image.make(client, name, {"random": secrets.token_bytes(SIZE_BYTES)})
        try:
            yield name
        finally:
            client.images.remove(name, force=True)


@pytest.mark.parametrize(
    ("full", "words", "hint"),
    [
        ("/var/tmp", "has 1.0 MiB free and needs 6.0 MiB", "df /var/tmp"),
        # There is room below docker's root; its loading, which unpacks beside it, runs out of it.
        ("/var/lib/docker/tmp", "no space left on device", "docker system prune"),
    ],
    ids=["before it is sent", "while it is loaded"],
)
def test_a_full_disk_fails_its_node_alone_and_leaves_nothing(distribute, on_node, large, full, words, hint):
    """With room again the next call does the rest."""
    on_node("node2", f"mount -t tmpfs -o size=1m tmpfs {full}")
    try:
        _, nodes, said = distribute(large, code=9)
        assert (nodes["node1"]["status"], nodes["node2"]["status"]) == ("received", "failed")
        assert "failed: node2: " in said
        assert words in nodes["node2"]["error"] and hint in said
        assert on_node("node2", f"docker image inspect -f x {large} 2>/dev/null") == ""
        assert on_node("node2", "grep restrict ~/.ssh/authorized_keys") == ""
        assert on_node("node1", LEFT) == ""
    finally:
        on_node("node2", f"umount {full}")
    _, nodes, _ = distribute(large)
    assert {name: node["status"] for name, node in nodes.items()} == {"node1": "present", "node2": "received"}
    assert [on_node(node, LEFT) for node in NODES] == ["", ""]
    for node in NODES:
        on_node(node, f"docker image rm {large}")


@pytest.mark.parametrize(
    ("break_it", "mend", "words", "hint"),
    [
        ("cd /usr/bin && touch off && mount --bind docker off && umount docker && rm docker",
         "cd /usr/bin && touch docker && mount --bind off docker && umount off && rm off",
         "docker is not installed", " --only docker installs and starts it"),
        ("mv /run/docker.sock /run/docker.off", "mv /run/docker.off /run/docker.sock",
         "the docker engine does not answer", "systemctl start docker"),
        (OLD_DOCKER, "rm /usr/local/bin/docker", "its docker engine is 19.03.15, older than 20.10", "upgrade it"),
    ],
    ids=["none", "stopped", "old"],
)  # fmt: skip
def test_a_node_without_a_fitting_docker_is_named(distribute, on_node, large, break_it, mend, words, hint):
    on_node("node2", break_it)
    try:
        _, nodes, said = distribute(large, code=9)
    finally:
        on_node("node2", mend)
        on_node("node1", f"docker image rm {large}")
    assert nodes["node1"]["status"] == "received"
    assert words in nodes["node2"]["error"] and hint in said
    assert [on_node(node, LEFT) for node in NODES] == ["", ""]
