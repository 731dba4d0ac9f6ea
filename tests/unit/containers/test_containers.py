"""Containers before any is started: what a node's settings become there, and what docker's refusals mean."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from dataclasses import replace

import pytest
from launch_facts import facts_of

from clusterctl.containers import files, found
from clusterctl.containers import keys as containers_keys
from clusterctl.containers import record as containers_record
from clusterctl.containers.fit import Found, fit
from clusterctl.containers.session import Containers, env_file, refusal
from clusterctl.containers.up import mesh_script, nodes_of
from clusterctl.errors import ConfigError, LaunchError, UsageError
from clusterctl.facts.gather import gather
from clusterctl.images.on_node import EngineInfo, NodeImage, info_of
from clusterctl.inventory import load
from clusterctl.inventory.model import ContainerSettings, Node
from clusterctl.rundir import RunDir
from clusterctl.transport.local import LocalTransport

CLUSTER_FILE = "/etc/sysconfig/rdma/cluster"

ENGINE = EngineInfo("28.2.2", "amd64", "/var/lib/docker", (), ())
IMAGE = NodeImage("sha256:1", ("a",), "2026", "amd64", 1, "", ("PATH=/opt/bin:/bin", "A=it's"), ())
FOUND = Found("host", "10.0.0.1", frozenset(), frozenset(), False, False, False, None)


def fitted(container, *, found=FOUND, engine=ENGINE, image=IMAGE, gpus=None, port=2222):
    settings = ContainerSettings(image="i:1", **container)
    return fit(Node(name="n", address="a", gpus=gpus, container=settings), found, engine, image, port)


def problems(result):
    return [problem.message for problem in result.problems]


def test_defaults_give_way_to_what_the_node_lacks_and_say_so():
    result = fitted({}, found=replace(FOUND, absent=frozenset({"/dev/infiniband"})))
    assert not result.problems
    assert (result.container.gpus, result.container.devices) == ("none", ())
    assert len(result.notes) == 2


def test_what_the_inventory_names_must_be_there():
    absent = replace(FOUND, absent=frozenset({"/dev/infiniband", "/data"}))
    result = fitted(
        {"devices": ("/dev/infiniband",), "volumes": ("/data:/data",), "gpus": "all"}, found=absent
    )
    assert len(problems(result)) == 3


@pytest.mark.parametrize(
    ("spec", "dirs", "runtimes", "expected"),
    [
        (True, ("/etc/cdi",), ("nvidia",), "cdi"),
        (True, (), ("nvidia",), "all"),
        (False, ("/etc/cdi",), ("nvidia",), "all"),
    ],
)
def test_gpus_come_by_cdi_where_docker_and_the_node_know_it(spec, dirs, runtimes, expected):
    engine = replace(ENGINE, cdi_dirs=dirs, runtimes=runtimes)
    result = fitted({}, found=replace(FOUND, gpus=True, cdi_spec=spec), engine=engine)
    assert (result.container.gpus, result.problems) == (expected, ())


def test_gpus_come_by_the_toolkits_hook_where_docker_was_told_of_no_runtime():
    result = fitted({}, found=replace(FOUND, gpus=True, gpu_hook=True))
    assert (result.container.gpus, result.problems) == ("all", ())


def test_gpus_that_docker_cannot_give_are_a_problem_and_no_silence():
    assert problems(fitted({}, found=replace(FOUND, gpus=True))) == ["docker cannot give GPUs to containers"]


def test_the_cluster_file_is_mounted_where_it_is_and_only_once():
    there = replace(FOUND, cluster_file=True)
    assert f"{CLUSTER_FILE}:{CLUSTER_FILE}:ro" in fitted({}, found=there).container.volumes
    own = (f"/mine:{CLUSTER_FILE}",)
    assert fitted({"volumes": own}, found=there).container.volumes == own


@pytest.mark.parametrize(
    ("found", "image", "container", "words"),
    [
        (replace(FOUND, ports=frozenset({2222})), IMAGE, {}, "port 2222 is in use"),
        (replace(FOUND, name_taken="0123456789abcdef"), IMAGE, {}, "already exists (0123456789ab)"),
        (FOUND, None, {}, "not have image i:1"),
        (FOUND, replace(IMAGE, architecture="arm64"), {}, "is for arm64"),
        (FOUND, IMAGE, {"network": "bridge"}, "network 'bridge'"),
    ],
)
def test_every_obstacle_is_named_with_what_to_do(found, image, container, words):
    result = fitted(container, found=found, image=image)
    (problem,) = result.problems
    assert words in problem.message
    assert problem.hint


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            'exec: "/usr/sbin/sshd": stat /usr/sbin/sshd: no such file or directory: unknown.',
            "no /usr/sbin/sshd",
        ),
        (
            "error setting rlimits for ready process: error setting rlimit type 8: operation not permitted",
            "limit",
        ),
        ("unable to apply caps: operation not permitted", "capability"),
        ('could not select device driver "" with capabilities: [[gpu]]', "GPUs"),
        ("write /x: no space left on device", "no space left"),
        ("something new", "something new"),
    ],
)
def test_dockers_refusals_are_explained_and_never_swallowed(said, words):
    error = refusal("gpu01", f"Error response from daemon: {said}")
    assert error.message.startswith("gpu01: ")
    assert words in error.message


def probed(texts, node=None, taken=None):
    facts = facts_of(texts, subjects=found.READS)
    return found.of_facts(node or Node(name="n", address="jump.example"), facts, taken)


def test_a_probe_that_is_cut_short_is_no_answer():
    whole = facts_of(subjects=found.READS)
    for cut in (replace(whole, sections=whole.sections[:-1]), replace(whole, session=None)):
        with pytest.raises(LaunchError, match="did not answer the container probe completely"):
            found.of_facts(Node(name="n", address="a"), cut, None)


def test_a_probe_is_read():
    listening = "".join(f"  0: 00000000:{port} 00000000:0000 0A 0\n" for port in ("0016", "08AE"))
    text = {"listening": listening, "containers": "absent /dev/infiniband\n"}
    there = probed(text)
    assert (there.address, sorted(there.ports)) == ("10.0.0.1", [22, 2222])
    assert there.absent == {"/dev/infiniband"}
    assert (there.gpus, there.gpu_hook, there.cdi_spec, there.cluster_file) == (False, False, False, True)
    others = f"gpu-device\ngpu-hook\ncdi-gpus\nabsent {CLUSTER_FILE}\n"
    there = probed({"containers": others}, taken="c0ffee")
    assert (there.gpus, there.gpu_hook, there.cdi_spec, there.cluster_file) == (True, True, True, False)
    assert there.name_taken == "c0ffee"


def test_the_address_is_that_of_the_interface_else_where_ssh_arrived_else_the_inventorys():
    ip = "1: lo    inet 127.0.0.1/8 scope host\n2: ib0    inet 10.1.0.7/16 scope global\n"
    texts = {"network": "ib0/operstate:up\nlo/operstate:unknown\n", "addresses": ip}

    def address(socket_ifname, arrived):
        node = Node(name="n", address="203.0.113.7", socket_ifname=socket_ifname)
        return probed({**texts, "session": f"connection 10.0.0.9 5000 {arrived} 22\n"}, node).address

    assert address("=ib0,ib1", "10.0.0.1") == "10.1.0.7"
    assert [address(name, "10.0.0.1") for name in (None, "^ib0", "ib7")] == ["10.0.0.1"] * 3
    assert address(None, "127.0.0.1") == "203.0.113.7"


def test_only_what_is_there_is_left_out_by_a_real_shell(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi" / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n")
    paths = tuple(f"{tmp_path}/{name}:/x" for name in ("there", "no*", "$HOME"))
    node = Node(name="n", address="a", connection="local", container={"image": "i", "volumes": paths})
    engine = replace(ENGINE, cdi_dirs=(str(tmp_path / "none"), str(tmp_path / "cdi")))
    facts = gather(
        LocalTransport(node), node, 60.0, subjects=found.READS, values=found.values(node, engine), sudo=False
    )
    there = found.of_facts(node, facts, None)
    assert there.absent >= {f"{tmp_path}/no*", f"{tmp_path}/$HOME"}
    assert f"{tmp_path}/there" not in there.absent
    assert there.cdi_spec


def test_the_environment_survives_a_shell_and_leaves_the_sessions_own_alone(tmp_path):
    text = files.environment(("A=it's", "HOME=/x", "B=$A", "lines=a\nb"), {"C": '"`id`"'})
    (tmp_path / "env").write_text(text)
    done = subprocess.run(
        ["sh", "-c", '. ./env; printf "%s|%s|%s|%s" "$A" "$B" "$C" "$lines"'],
        cwd=tmp_path, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stdout == 'it\'s|$A|"`id`"|a\nb'
    assert "HOME" not in text


def test_the_container_gets_its_keys_with_least_rights():
    keys = [containers_keys.make() for _ in range(3)]
    peers = [files.Peer(f"n{i}", f"10.0.0.{i}", 2222, keys[i]) for i in range(2)]
    with tarfile.open(fileobj=io.BytesIO(files.archive(peers[0], peers, keys[2], "")), mode="r") as tar:
        members = {member.name: member for member in tar}
        text = {m.name: tar.extractfile(m).read().decode() for m in members.values() if m.isfile()}
    assert text["etc/ssh/ssh_host_ed25519_key"].encode() == keys[0].private
    assert text["etc/ssh/clusterctl/authorized_keys"] == f"restrict,pty {keys[2].public}\n"
    assert text["root/.ssh/known_hosts"].splitlines()[1] == f"[10.0.0.1]:2222 {keys[1].public}"
    secret = ("ssh_host_ed25519_key", "id_ed25519", "environment", "authorized_keys")
    assert all(m.mode == 0o600 for name, m in members.items() if name.rpartition("/")[2] in secret)
    assert "Port 2222" in text["etc/ssh/clusterctl/sshd_config"]
    assert "PRIVATE" not in repr(keys[0])


def test_the_keys_are_openssh_keys(tmp_path):
    key = containers_keys.make()
    path = tmp_path / "key"
    path.write_bytes(key.private)
    path.chmod(0o600)
    done = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(path)], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split()[:2] == key.public.split()


def test_the_inventory_of_the_containers_is_an_inventory_without_secrets(tmp_path):
    node = Node(
        name="n1", address="10.0.0.1", port=22, user="ubuntu", slots=2, env={"A": "1", "HF_TOKEN": "s3cret"}
    )
    run = RunDir.create("up", tmp_path)
    found = containers_record.container_node(node, "10.0.0.1", 2222, run.path)
    containers_record.write_keys(run, b"key", "10.0.0.1 ssh-ed25519 x\n")
    path = containers_record.write(run, [found], "openmpi")
    assert "s3cret" not in path.read_text()
    (loaded,) = load.load(path).nodes
    assert (loaded.user, loaded.port, loaded.slots, loaded.env) == ("root", 2222, 2, {"A": "1"})
    assert loaded.identity_file == str(run.path / containers_record.IDENTITY)


def test_what_cannot_be_written_is_said_in_words(tmp_path):
    run = RunDir.create("up", tmp_path)
    (run.path / containers_record.KNOWN_HOSTS).mkdir()
    with pytest.raises(ConfigError, match=r"cannot write .*: Is a directory"):
        containers_record.write_keys(run, b"key", "")


def test_those_that_are_up_are_found_and_doubt_is_asked_about(tmp_path):
    with pytest.raises(LaunchError, match="no containers are recorded as running"):
        containers_record.those_up(None, tmp_path)
    node = containers_record.container_node(Node(name="n", address="a"), "a", 2222, tmp_path)
    one, two = RunDir.create("up", tmp_path), RunDir.create("up", tmp_path)
    containers_record.write(one, [node], "openmpi")
    assert containers_record.those_up(None, tmp_path).id == one.id
    containers_record.write(two, [node], "openmpi")
    with pytest.raises(UsageError, match="containers of 2 runs"):
        containers_record.those_up(None, tmp_path)
    assert containers_record.those_up(two.id, tmp_path).id == two.id
    containers_record.forget(two)
    with pytest.raises(LaunchError, match="no containers of"):
        containers_record.those_up(two.id, tmp_path)


def test_a_run_that_is_somebody_elses_or_damaged_is_an_error_in_words(tmp_path, monkeypatch):
    run = RunDir.create("up", tmp_path)
    monkeypatch.setattr(containers_record.os, "access", lambda *_: False)
    with pytest.raises(LaunchError, match="no containers are recorded as running") as raised:
        containers_record.those_up(None, tmp_path)
    assert raised.value.hint == f"{run.id} belongs to another user (was sudo used?): run as that user"
    run.write("inventory", {"nodes": "n1"})
    with pytest.raises(ConfigError, match=r"inventory\.json is damaged: nodes: ") as damaged:
        nodes_of(run)
    assert f"={run.id})" in str(damaged.value.hint)


def test_the_mesh_is_asked_at_once_and_a_name_is_no_command():
    text = mesh_script([Node(name="n1", address="a"), Node(name="n2", address="b")]).decode()
    assert text.splitlines()[-3:] == ["ask 0 n1 &", "ask 1 n2 &", "wait"]


def test_docker_info_is_read_whatever_it_leaves_out():
    found = info_of(
        {"ServerVersion": "28.2.2", "Architecture": "x86_64", "CDISpecDirs": None, "Runtimes": {"runc": {}}}
    )
    assert (found.architecture, found.cdi_dirs, found.runtimes) == ("amd64", (), ("runc",))


def test_a_secret_of_several_lines_stays_out_of_dockers_file():
    """docker says a line that it takes for a name aloud: variable 'two words' contains whitespaces."""
    text, notes = env_file({"TLS_KEY": "first line\ntwo words", "HF_TOKEN": "one"})
    assert text == b"HF_TOKEN=one\n"
    assert len(notes) == 1 and notes[0].startswith("TLS_KEY spans several lines")
    exported = files.environment((), {"TLS_KEY": "first line\ntwo words"})
    said = subprocess.run(
        ("sh", "-c", exported + 'printf %s "$TLS_KEY"'), capture_output=True, text=True, check=True
    )
    assert said.stdout == "first line\ntwo words"


DOCKER = """#!/bin/sh
case "$1 $2" in
  "info --format") printf '{"ServerVersion": "28.2.2"}' ;;
  "container ls") echo "Error response from daemon: database is locked" >&2; exit 1 ;;
esac
"""


def test_an_engine_that_cannot_say_what_is_left_has_not_none(tmp_path, monkeypatch):
    """What counted as gone would be forgotten, and stay on the node for ever."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    here = Node(name="n", address="localhost", connection="local")
    removed = Containers([here], LocalTransport, "20261122T015714Z-up-1a2b", 0).remove()
    assert (
        "n: docker cannot list the remaining containers: database is locked" in removed.failures["n"].message
    )
