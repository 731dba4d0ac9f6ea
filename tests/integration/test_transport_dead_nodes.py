"""A fleet with dead nodes, busy ones and a jump host with narrow limits: an exact report, in time, and nothing left."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import sshd_farm as farms
from listening import wait_until

from clusterctl.inventory.model import Node
from clusterctl.transport.base import FailureKind
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out

CONNECT_TIMEOUT_S = 12.0
COMMAND_TIMEOUT_S = 20.0


def nodes_of(farm):
    return [
        Node(
            name=n.name, address=n.address, port=n.port, user=farm.user, identity_file=str(farm.identity_file)
        )
        for n in farm.nodes
    ]


@pytest.fixture
def use(monkeypatch):
    """Make clusterctl read a farm's known_hosts and ssh_config."""

    def apply(farm):
        for name, value in farm.env.items():
            monkeypatch.setenv(name, value)
        return farm

    return apply


def restarted(node, *settings):
    """Start a node's daemon again with settings that go before those of its file."""
    node.stop()
    for setting in settings:
        node.command += ("-o", setting)
    node.start()
    farms.wait_for_listeners([node])


def held():
    gc.collect()
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), len(children)


def ask(node, transport):
    # On a hanging node grep never ends.
    return transport.run(("grep", "-c", ".", "/proc/uptime"), timeout_s=COMMAND_TIMEOUT_S).text


def test_dead_nodes_cost_one_deadline_and_are_named_exactly(sshd_farm, use):
    farm = use(sshd_farm(84, refusing=6, silent=6, hanging=4))
    nodes = nodes_of(farm)
    connector = Connector(connect_timeout_s=CONNECT_TIMEOUT_S)
    began = time.monotonic()
    assert not fan_out(nodes[:84], connector, ask, fanout=32).failures
    healthy_s = time.monotonic() - began
    before = held()
    mixed = [node for place in range(6) for node in nodes[place::6]]
    began = time.monotonic()
    outcome = fan_out(mixed, connector, ask, fanout=32)
    took_s = time.monotonic() - began
    assert list(outcome) == [node.name for node in mixed]
    expected = {n.name: FailureKind.REFUSED for n in nodes[84:90]}
    expected |= {n.name: FailureKind.TIMEOUT for n in nodes[90:96]}
    expected |= {n.name: FailureKind.DEADLINE for n in nodes[96:]}
    assert {name: failure.kind for name, failure in outcome.failures.items()} == expected
    assert set(outcome.values_by_node.values()) == {"1\n"}
    # What a hung command leaves on its node is ended by a second command, which takes its time as well; a second
    # deadline would be later still.
    assert took_s < healthy_s + COMMAND_TIMEOUT_S + 15
    # A connection is given up after some seconds of waiting for its thread, which on a busy machine ends later.
    wait_until(
        lambda: all(now <= then for now, then in zip(held(), before, strict=True)), "something is left", 30
    )
    left = subprocess.run(
        ("pgrep", "-f", f"sleep {farms.HANG_S}"), capture_output=True, timeout=30, check=False
    )
    assert left.stdout == b"", "a command that was ended still runs on its node"


# Each command with its exit code: 5 if it needs all of its nodes.
BESIDE_A_SILENT_NODE = {
    ("check", "--only", "disk"): 1,
    ("bootstrap", "--only", "network-buffers", "--dry-run"): 1,
    ("undo", "--dry-run"): 1,
    ("bench", "--collective", "all_reduce"): 5,
    ("locate",): 5,
}


def test_each_command_names_a_silent_node_in_time_and_who_is_left(sshd_farm, clusterctl, tmp_path):
    farm = sshd_farm(2, silent=1)
    inventory = farm.inventory(tmp_path)
    environment = {**os.environ, **farm.env, "CLUSTERCTL_CONNECT_TIMEOUT_S": "3"}
    began = time.monotonic()
    processes = {
        words: subprocess.Popen(
            (clusterctl, words[0], inventory, *words[1:]), text=True, env=environment, cwd=tmp_path,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for words in BESIDE_A_SILENT_NODE
    }  # fmt: skip
    said = {words: process.communicate(timeout=120)[0] for words, process in processes.items()}
    assert time.monotonic() - began < 60
    for words, code in BESIDE_A_SILENT_NODE.items():
        assert processes[words].returncode == code, said[words]
        # A run that failed has the cause in the sentence of its result and in the line about the failure.
        assert said[words].count("no SSH greeting within ") == (1 if code == 1 else 2), said[words]
        assert "check that the node is up" in said[words] and "Traceback" not in said[words]
        assert code == 1 or "--limit '!node03'" in said[words], said[words]


def test_logins_that_sshd_drops_at_random_are_tried_again(sshd_farm, use):
    farm = use(sshd_farm(1, sshd_config="MaxStartups 1:50:6"))
    (node,) = farm.nodes
    (there,) = nodes_of(farm)
    many = [there.model_copy(update={"name": f"login{i}"}) for i in range(24)]
    outcome = fan_out(
        many, Connector(connect_timeout_s=30), lambda n, t: t.run(("true",)).returncode, fanout=12
    )
    assert not outcome.failures, next(iter(outcome.failures.values()))
    assert "drop" in node.log_text(), "sshd had no reason to drop any: nothing was shown"


def test_a_server_that_always_hangs_up_is_given_up_soon(sshd_farm, use):
    farm = use(sshd_farm(1, sshd_config="MaxStartups 1:100:1"))
    began = time.monotonic()
    (there,) = nodes_of(farm)

    with socket.create_connection((there.address, there.port)) as held_open:
        held_open.recv(64)
        (failure,) = fan_out(
            [there], Connector(connect_timeout_s=10), lambda n, t: t.run(("true",))
        ).failures.values()
    assert failure.kind is FailureKind.PROTOCOL and "before SSH began" in failure.message, failure
    assert "MaxStartups" in (failure.hint or "") and time.monotonic() - began < 20


def test_sessions_behind_a_jump_host_do_not_count_as_its_own(sshd_farm, use):
    farm = use(sshd_farm(33, sshd_config="MaxStartups 1:100:2"))
    restarted(farm.nodes[0], "MaxSessions 1")
    jump, *behind = nodes_of(farm)
    there = [node.model_copy(update={"proxy_jump": f"{jump.address}:{jump.port}"}) for node in behind]
    with Connector(connect_timeout_s=30) as connector:
        outcome = fan_out(there, connector, lambda n, t: t.run(("true",)).returncode, fanout=32)
    assert not outcome.failures, next(iter(outcome.failures.values()))
    assert farm.nodes[0].connections == 1, "one connection carries all, and counts once against MaxStartups"


def test_the_agent_is_not_forwarded(sshd_farm, use, tmp_path, monkeypatch):
    farm = use(sshd_farm(1, sshd_config="AllowAgentForwarding yes"))
    (farm.directory / "ssh_config").write_text("Host *\n ForwardAgent yes\n")
    place = tmp_path / "agent"
    agent = subprocess.Popen(("ssh-agent", "-D", "-a", str(place)), stdout=subprocess.DEVNULL)
    try:
        wait_until(place.exists, "ssh-agent makes no socket")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(place))
        subprocess.run(("ssh-add", "-q", str(farm.identity_file)), check=True, timeout=30)
        outcome = fan_out(
            nodes_of(farm), Connector(), lambda n, t: t.run(("sh", "-c", 'echo "[$SSH_AUTH_SOCK]"'))
        )
        assert [done.text for done in outcome.values_by_node.values()] == ["[]\n"]
    finally:
        agent.terminate()
        agent.wait(10)
