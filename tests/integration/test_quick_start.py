"""The three steps of README: its commands are typed at a terminal, on nodes like those of the page, and compared."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
import recorded_session
from terminal_session import TerminalSession

from clusterctl.inventory.model import Node
from clusterctl.transport.connect import Connector

README = Path(__file__).parents[2] / "README.md"
OWN = (
    *("/etc/sysconfig", "/etc/sysctl.d", "/proc/sys/net/core", "/proc/sys/net/ipv4"),
    *("/run/systemd", "/var/lib/clusterctl"),
)
"""Directories that each node has for itself, so that neither this machine nor another node is changed or shown."""
EACH = r"""
echo none >/run/systemd/container && mkdir /etc/sysconfig/rdma && cd /proc/sys/net &&
echo 212992 >core/rmem_max && echo 212992 >core/wmem_max && echo 1000 >core/netdev_max_backlog &&
echo 4096 >core/somaxconn && echo 0 >ipv4/tcp_mtu_probing && echo >ipv4/ip_local_reserved_ports &&
printf '4096\t131072\t6291456\n' >ipv4/tcp_rmem && printf '4096\t16384\t4194304\n' >ipv4/tcp_wmem &&
printf '32768\t60999\n' >ipv4/ip_local_port_range &&
"""
ALIKE, OTHER = "echo IB_HCA=mlx5_0 >/etc/sysconfig/rdma/cluster", "echo 1024 >core/somaxconn"
TOO_LONG = "--model"
"""A training takes a minute without GPUs; the test only asks bench to plan it."""


@pytest.fixture
def terminal(sshd_farm, clusterctl, tmp_path):
    """Return a function that runs a command of the page at a terminal, and returns what this shows."""
    farm = sshd_farm(4, refusing=1, prefix="gpu", private=OWN)
    for node in farm.nodes[:4]:
        place = {"name": node.name, "address": node.address, "port": node.port}
        keys = {"identity_file": str(farm.identity_file), "known_hosts": str(farm.known_hosts)}
        transport = Connector()(Node(**place, **keys, user="root"))
        script = EACH + (OTHER if node.name == "gpu04" else ALIKE)
        assert transport.run(("sh", "-c", script)).returncode == 0
        transport.close()
    wanted = {
        "skip": ["docker", "time-sync", "cpu-governor", "numa-balancing"],
        "memlock": 64,
        "ssh_mesh": {"require": False},
        "cluster_file": {"path": "/etc/sysconfig/rdma/cluster", "content": "IB_HCA=mlx5_0\n"},
    }
    farm.inventory(tmp_path, socket_ifname="lo", python=sys.executable, requirements=json.dumps(wanted))

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def typed(command, question=None):
        _, *words = shlex.split(command)
        place = tmp_path if "inventory.yaml" in words else elsewhere
        with TerminalSession(
            (str(clusterctl), *words), cwd=place, env=farm.env, columns=100, lines=120
        ) as at:
            if question:
                at.until(question)
                at.type("y\n")
            at.ended()
            return at.screen

    return typed


def test_the_sessions_of_readme_are_what_the_commands_print(terminal):
    steps = recorded_session.shown_in(README.read_text(encoding="utf-8"))
    assert [step.command.split()[1] for step in steps] == [
        "inventory",
        "check",
        "bootstrap",
        "bootstrap",
        "bench",
        "bench",
    ]
    for step in steps:
        if TOO_LONG in step.command:
            assert "--model" in terminal(f"{step.command} --dry-run")
            continue
        printed = terminal(step.command, r"\[y/N\]" if "[y/N]" in step.output else None)
        missing = recorded_session.difference(step.output, printed)
        assert missing is None, f"$ {step.command}\n{printed}\n\nREADME.md has, but not there: {missing}"
