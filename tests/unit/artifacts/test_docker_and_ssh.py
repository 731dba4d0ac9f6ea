"""docker run lines and ssh_config: settings one by one, and that ssh's parsers read what was meant."""

from __future__ import annotations

import io
from itertools import pairwise

import paramiko
import pytest

from clusterctl.artifacts import ssh_config
from clusterctl.artifacts.docker_run import STYLES, docker_run_argv
from clusterctl.errors import ArtifactError
from clusterctl.inventory.model import ContainerSettings, Node


def test_least_privilege_unless_asked() -> None:
    argv = docker_run_argv(ContainerSettings(image="i"))
    assert "--privileged" not in argv
    assert argv[argv.index("--cap-add") + 1] == "IPC_LOCK"
    assert argv[argv.index("--device") + 1] == "/dev/infiniband"
    privileged = docker_run_argv(ContainerSettings(image="i", privileged=True))
    assert "--privileged" in privileged
    assert not {"--cap-add", "--device"} & set(privileged)


@pytest.mark.parametrize("style", STYLES)
def test_every_style_says_every_setting(style: str) -> None:
    container = ContainerSettings(
        image="i:1",
        name="n",
        network="net",
        ipc="private",
        shm_size="1g",
        memlock="1",
        stack="2",
        devices=("/dev/a", "/dev/b"),
        cap_add=("X",),
        volumes=("/v:/v",),
        interactive=True,
        detach=True,
        command=("run", "it"),
        env={"E": "e", "F": "f"},
    )
    argv = docker_run_argv(container, style=style, env={"E": "other"})
    words = " ".join(argv).replace("=", " ").split()
    for word in ("n", "net", "private", "1g", "/dev/a", "/dev/b", "X", "/v:/v", "-itd", "--rm", "all", "f"):
        assert word in words, word
    assert ("memlock", "1") in pairwise(words)
    assert ("stack", "2") in pairwise(words)
    assert "E=other" in argv
    assert "E=e" not in argv
    assert argv[-3:] == ("i:1", "run", "it")


def test_rendering_twice_gives_the_same() -> None:
    container = ContainerSettings(image="i", volumes=("/v:/v",), env={"A": "1"})
    assert docker_run_argv(container) == docker_run_argv(container)


@pytest.mark.parametrize("ipc", ["host", "container:x"])
def test_a_shared_ipc_namespace_has_no_shm_size_of_its_own(ipc: str) -> None:
    assert not any("shm" in word for word in docker_run_argv(ContainerSettings(image="i", ipc=ipc)))


def test_no_image_and_no_such_style_are_refused() -> None:
    with pytest.raises(ArtifactError, match="no image") as caught:
        docker_run_argv(ContainerSettings())
    assert "container.image" in (caught.value.hint or "")
    with pytest.raises(ArtifactError, match="unknown style 'x'"):
        docker_run_argv(ContainerSettings(image="i"), style="x")


NODES = (
    Node(
        name="a",
        address="10.0.0.1",
        port=2222,
        user="me",
        identity_file="/my keys/id%1",
        proxy_jump="you@jump:23",
    ),
    Node(name="b", address="fe80::1%eth0"),
    Node(name="here", address="localhost", connection="local"),
)


def test_paramiko_reads_the_ssh_config_as_meant() -> None:
    text = ssh_config.render(NODES, known_hosts="/k n/hosts", connect_timeout_s=5)
    config = paramiko.SSHConfig.from_file(io.StringIO(text))
    a = config.lookup("a")
    assert (a["hostname"], a["port"], a["user"], a["proxyjump"]) == ("10.0.0.1", "2222", "me", "you@jump:23")
    assert (a["batchmode"], a["stricthostkeychecking"], a["connecttimeout"]) == ("yes", "yes", "5")
    assert "here" not in config.get_hostnames()


def test_a_nodes_own_known_hosts_stand_in_its_block_until_one_file_is_given_for_all() -> None:
    node = Node(name="a", address="192.0.2.7", known_hosts="/lab/known_hosts")
    assert ssh_config.render([node]).count("UserKnownHostsFile /lab/known_hosts") == 1
    given = ssh_config.render([node], known_hosts="/all")
    assert "UserKnownHostsFile /all" in given and "/lab" not in given


def test_nothing_to_reach_by_ssh_and_quotes_in_paths_are_refused() -> None:
    with pytest.raises(ArtifactError, match="no node is reached by SSH"):
        ssh_config.render(NODES[2:])
    with pytest.raises(ArtifactError, match="cannot hold the path"):
        ssh_config.render(NODES, known_hosts='/a"b')
    for unset in ({"include": ""}, {"known_hosts": ""}):
        with pytest.raises(ArtifactError, match="cannot be empty"):
            ssh_config.render(NODES, **unset)
