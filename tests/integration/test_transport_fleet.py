"""Many real sshd nodes at once, healthy and broken, directly and behind a jump host; nothing is left behind."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from listening import wait_until
from sshd_farm import wait_for_listeners

from clusterctl.inventory.model import Node
from clusterctl.transport.base import Completed, FailureKind
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out


def nodes_of(farm, **settings):
    return [
        Node(name=n.name, address=n.address, port=n.port, user=farm.user,
             **{"identity_file": str(farm.identity_file), **settings})
        for n in farm.nodes
    ]  # fmt: skip


@pytest.fixture
def use(monkeypatch):
    """Make clusterctl read a farm's known_hosts and ssh_config."""

    def apply(farm):
        for name, value in farm.env.items():
            monkeypatch.setenv(name, value)
        return farm

    return apply


def open_files():
    # What earlier tests left to the collector must not close between two counts.
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def wait_until_only(threads, files):
    """A connection is given up after some seconds of waiting for its thread, which on a busy machine ends later."""
    wait_until(lambda: threading.active_count() <= threads and open_files() <= files, "something is left", 30)


def test_bad_nodes_do_not_touch_good_ones_and_nothing_is_left(sshd_farm, use):
    farm = use(sshd_farm(64, refusing=3, silent=3, changed=2, unknown=2))
    nodes = [*nodes_of(farm), Node(name="nowhere", address="nowhere.invalid")]
    warm = fan_out(nodes[:1], Connector(), lambda node, t: t.run(("true",)))
    assert not warm.failures
    threads, files = threading.active_count(), open_files()
    most = [0]

    def work(node, transport):
        most[0] = max(most[0], threading.active_count())
        transport.run(("true",))
        return transport.run(
            ("sh", "-c", "echo $SSH_CONNECTION; cat"), stdin=node.name.encode(), timeout_s=60
        )

    connector = Connector(connect_timeout_s=8)
    began = time.monotonic()
    outcome = fan_out(nodes, connector, work, fanout=64)
    assert time.monotonic() - began < 40
    assert list(outcome) == [node.name for node in nodes]
    good = outcome.values_by_node
    assert list(good) == [node.name for node in nodes[:64]]
    for node in nodes[:64]:
        server = good[node.name].text.split()[2]
        assert isinstance(good[node.name], Completed) and server == node.address, "the answer is this node's"
        assert good[node.name].text.endswith(node.name)
    kinds = [failure.kind for failure in outcome.failures.values()]
    assert kinds == [FailureKind.REFUSED] * 3 + [FailureKind.TIMEOUT] * 3 + [
        FailureKind.HOST_KEY_CHANGED
    ] * 2 + [FailureKind.HOST_KEY_UNKNOWN] * 2 + [FailureKind.DNS]
    wait_until_only(threads, files)
    # A worker and a connection for each of the 64 at once, and while it connects a timer of paramiko's.
    assert most[0] <= threads + 3 * 64
    healthy = farm.nodes[1:64]
    assert {(node.connections, node.execs) for node in healthy} == {(1, 2)}


def test_a_node_that_dies_at_work_is_a_failure_and_the_others_go_on(sshd_farm, use):
    farm = use(sshd_farm(4))

    def work(node, transport):
        if node.name == farm.nodes[2].name:
            transport.run(("true",))  # logged in: on a busy machine that alone may take a second
            threading.Timer(0.5, farm.nodes[2].stop).start()
            return transport.run(("sleep", "120"), timeout_s=150)
        return transport.run(("sleep", "1.5"), timeout_s=40)

    began = time.monotonic()
    outcome = fan_out(nodes_of(farm), Connector(), work)
    assert time.monotonic() - began < 60
    assert {name: f.kind for name, f in outcome.failures.items()} == {farm.nodes[2].name: FailureKind.LOST}
    assert all(done.returncode == 0 for done in outcome.values_by_node.values())


def test_behind_a_jump_host_over_one_shared_connection(sshd_farm, use):
    farm = use(sshd_farm(9))
    jump, *behind = nodes_of(farm)
    there = [node.model_copy(update={"proxy_jump": f"{jump.address}:{jump.port}"}) for node in behind]
    threads, files = threading.active_count(), open_files()
    outcome = fan_out(
        there, Connector(), lambda node, t: t.run(("sh", "-c", "echo $SSH_CONNECTION")), fanout=8
    )
    assert not outcome.failures
    assert [done.text.split()[2] for done in outcome.values_by_node.values()] == [
        node.address for node in behind
    ]
    assert farm.nodes[0].connections == 1 and farm.nodes[0].execs == 0
    for _ in range(4):
        assert not fan_out(there, Connector(), lambda node, t: t.run(("true",)), fanout=8).failures
    wait_until_only(threads, files)


def test_large_files_cross_the_shared_connection_of_a_jump_host(sshd_farm, use, tmp_path):
    farm = use(sshd_farm(4))
    jump, *behind = nodes_of(farm)
    there = [node.model_copy(update={"proxy_jump": f"{jump.address}:{jump.port}"}) for node in behind]
    data = os.urandom(5 << 20)
    assert not fan_out(there, Connector(), lambda node, t: t.put(data, str(tmp_path / node.name))).failures
    assert [(tmp_path / node.name).read_bytes() == data for node in there] == [True] * 3


def test_a_jump_host_that_dies_takes_its_nodes_along_quietly(sshd_farm, use):
    farm = use(sshd_farm(5))
    jump, *behind = nodes_of(farm)
    there = [node.model_copy(update={"proxy_jump": f"{jump.address}:{jump.port}"}) for node in behind]
    threads, files = threading.active_count(), open_files()
    ready = threading.Barrier(4, action=lambda: threading.Timer(0.5, farm.nodes[0].stop).start())

    def work(node, transport):
        transport.run(("true",))
        ready.wait(30)
        return transport.run(("sleep", "120"), timeout_s=150)

    began = time.monotonic()
    outcome = fan_out(there, Connector(), work)
    assert time.monotonic() - began < 60
    assert [f.kind for f in outcome.failures.values()] == [FailureKind.LOST] * 4
    # The first node that notices the end of the jump host may finish while the jump host still ends.
    wait_until_only(threads, files)


def test_a_jump_host_that_ended_its_connection_is_logged_in_to_again(sshd_farm, use):
    """Of a large fleet some nodes always hold the connection: it must not stay the dead one for all that follow."""
    farm = use(sshd_farm(4))
    jump, *behind = nodes_of(farm)
    connector = Connector()
    there = [connector(n.model_copy(update={"proxy_jump": f"{jump.address}:{jump.port}"})) for n in behind]
    first, second, late = there
    try:
        for transport in (first, second):
            assert transport.run(("true",)).returncode == 0
        assert farm.nodes[0].drop_connections() == 1
        patience = time.monotonic() + 20
        while (first.is_open or second.is_open) and time.monotonic() < patience:
            time.sleep(0.02)
        assert late.run(("true",)).returncode == 0, "beside those that still count as its users"
        assert first.run(("true",)).returncode == 0
        assert farm.nodes[0].connections == 2
    finally:
        for transport in there:
            transport.close()
        connector.close()


def test_a_jump_host_that_was_away_is_tried_again_though_others_still_hold_the_dead_connection(
    sshd_farm, use
):
    farm = use(sshd_farm(3))
    jump, one, other = nodes_of(farm)
    way = {"proxy_jump": f"{jump.address}:{jump.port}"}
    with Connector() as connector:
        held = connector(one.model_copy(update=way))
        assert held.run(("true",)).returncode == 0
        farm.nodes[0].stop()
        deadline = time.monotonic() + 30
        while held.is_open:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        node = other.model_copy(update=way)
        (failure,) = fan_out([node], connector, lambda n, t: t.run(("true",))).failures.values()
        assert failure.kind is FailureKind.REFUSED and "jump host" in failure.message
        farm.nodes[0].start()
        wait_for_listeners([farm.nodes[0]])
        time.sleep(1.1)  # for so long a failure to reach it is everybody's
        outcome = fan_out([node], connector, lambda n, t: t.run(("true",)).returncode)
        assert list(outcome.values_by_node.values()) == [0], outcome.failures
        held.close()


def test_jump_hosts_fail_by_name_and_their_keys_are_verified(sshd_farm, use):
    farm = use(sshd_farm(2, refusing=1, unknown=1, changed=1))
    good, target, refusing, changed, unknown = nodes_of(farm)
    expected = {
        refusing.address: FailureKind.REFUSED,
        changed.address: FailureKind.HOST_KEY_CHANGED,
        unknown.address: FailureKind.HOST_KEY_UNKNOWN,
    }
    for address, kind in expected.items():
        there = target.model_copy(update={"proxy_jump": f"{address}:{target.port}"})
        (failure,) = fan_out([there], Connector(), lambda node, t: t.run(("true",))).failures.values()
        assert (
            failure.kind is kind
            and f"jump host {address}" in failure.message
            and target.name in failure.message
        )
    there = target.model_copy(update={"proxy_jump": "no-such-jump.invalid"})
    (failure,) = fan_out([there], Connector(), lambda node, t: t.run(("true",))).failures.values()
    assert failure.kind is FailureKind.DNS and "proxy_jump" in failure.hint
    there = refusing.model_copy(update={"proxy_jump": f"{good.address}:{good.port}"})
    (failure,) = fan_out([there], Connector(), lambda node, t: t.run(("true",))).failures.values()
    assert failure.kind is FailureKind.UNREACHABLE and "jump host" in failure.message
    for node, kind in ((changed, FailureKind.HOST_KEY_CHANGED), (unknown, FailureKind.HOST_KEY_UNKNOWN)):
        there = node.model_copy(update={"proxy_jump": f"{good.address}:{good.port}"})
        (failure,) = fan_out([there], Connector(), lambda node, t: t.run(("true",))).failures.values()
        assert failure.kind is kind, "a node's own key is verified behind a jump host too"


def test_a_jump_host_from_ssh_config(sshd_farm, use):
    farm = use(sshd_farm(2))
    first, second = farm.nodes
    (farm.directory / "ssh_config").write_text(
        f"Host bastion\n HostName {first.address}\n Port {first.port}\n User root\n"
        f" IdentityFile {farm.identity_file}\n"
        f"Host {second.address}\n Port {second.port}\n User root\n ProxyJump bastion\n"
        f" IdentityFile {farm.identity_file}\n"
    )
    outcome = fan_out([Node(name="n", address=second.address)], Connector(), lambda node, t: t.run(("true",)))
    assert not outcome.failures and first.connections == 1


def test_ten_nodes_that_hang_in_the_command_cost_one_deadline(sshd_farm, use):
    farm = use(sshd_farm(16))

    def work(node, transport):
        if int(node.name[-2:]) % 2 == 0:
            return transport.run(("true",))
        begun.append(time.monotonic())
        try:
            return transport.run(("sleep", "4713.1"), timeout_s=8)
        finally:
            ended.append(time.monotonic())

    begun, ended = [], []
    outcome = fan_out(nodes_of(farm), Connector(), work)
    assert [f.kind for f in outcome.failures.values()] == [FailureKind.DEADLINE] * 8
    assert max(begun) < min(ended), "one waited for the deadline of another"


def test_ctrl_c_ends_a_fan_out_promptly(sshd_farm, tmp_path):
    farm = sshd_farm(8, silent=4)
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(f"""
        import os, threading, time
        from clusterctl.inventory.model import Node
        from clusterctl.transport.connect import Connector
        from clusterctl.transport.fanout import fan_out
        nodes = [Node(name=n, address=a, port=p, user="root", identity_file={str(farm.identity_file)!r})
                 for n, a, p in {[(n.name, n.address, n.port) for n in farm.nodes]!r}]
        def work(node, transport):
            os.write(1, b"ready\\n")
            transport.run(("sleep", "4713.2"), timeout_s=100)
        try:
            fan_out(nodes, Connector(connect_timeout_s=120), work)
        except KeyboardInterrupt:
            # On a busy machine the threads end after the seconds for which the fan-out waits for them.
            patience = time.monotonic() + 20
            while threading.active_count() > 1 and time.monotonic() < patience:
                time.sleep(0.02)
            print("interrupted", [t.name for t in threading.enumerate()], flush=True)
        """)
    )
    with subprocess.Popen(
        (sys.executable, "-W", "error", str(program)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **farm.env},
    ) as process:  # fmt: skip
        for _ in farm.nodes:
            assert process.stdout.readline() == "ready\n"
        time.sleep(2)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert out == "interrupted ['MainThread']\n" and err == "" and process.returncode == 0, shlex.quote(err)
