"""What artifacts are written for accepts them: OpenSSH reads the ssh_config, mpirun runs the line."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from clusterctl.artifacts import ssh_config
from clusterctl.cli.render.app import app
from clusterctl.inventory.model import Node

pytestmark = pytest.mark.integration

NODES = (
    Node(name="a", address="10.0.0.1", port=2222, user="me", proxy_jump="you@jump:23"),
    Node(name="b", address="fe80::1%eth0"),
)


def test_openssh_reads_the_ssh_config_as_meant(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(ssh_config.render(NODES, known_hosts="/k n/hosts", identity_file="/over ride/key"))

    def option(host: str, key: str) -> str:
        command = ("ssh", "-G", "-F", str(path), host)
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return next(line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith(f"{key} "))

    assert option("a", "hostname") == "10.0.0.1"
    assert option("a", "port") == "2222"
    assert option("a", "user") == "me"
    assert option("a", "proxyjump") == "you@jump:23"
    assert option("a", "identityfile") == "/over ride/key"
    assert option("a", "identitiesonly") == "yes"
    assert option("b", "hostname") == "fe80::1%eth0"
    assert option("b", "stricthostkeychecking") in ("yes", "true")


def render(tmp_path: Path, capsys: pytest.CaptureFixture[str], inventory: str, *arguments: str) -> str:
    path = tmp_path / "inventory.yaml"
    path.write_text(inventory)
    app(args=[arguments[0], "-i", str(path), *arguments[1:]], standalone_mode=False)
    return capsys.readouterr().out


def run(command: list[str]) -> str:
    # mpirun warns about a variable that it should forward and that does not exist.
    environment = {**os.environ, "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


INVENTORY = """\
version: 1
nodes:
  - {name: localhost, slots: 2, socket_ifname: lo, env: {SPACED: "a b"}}
"""


@pytest.mark.parametrize("by", ["hosts", "hostfile"])
def test_mpirun_runs_the_rendered_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str) -> None:
    arguments = ["mpirun", "-np", "2", "--nccl-debug", "INFO"]
    if by == "hostfile":
        path = tmp_path / "hosts"
        path.write_text(render(tmp_path, capsys, INVENTORY, "hostfile"))
        arguments += ["--hostfile", str(path)]
    program = ["sh", "-c", 'echo "$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $NCCL_DEBUG $SPACED"']
    line = render(tmp_path, capsys, INVENTORY, *arguments, "--", *program)
    assert sorted(run(shlex.split(line)).splitlines()) == ["0/2 INFO a b", "1/2 INFO a b"]
