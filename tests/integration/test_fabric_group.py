"""The scripting face on real sshd nodes: logins, failures, root and files are clusterctl's, the rest is fabric's."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import fabric
import pytest
from fabric.exceptions import GroupException
from invoke.exceptions import AuthFailure, CommandTimedOut

import clusterctl.fabric
from clusterctl.errors import InventoryError, UsageError
from clusterctl.transport.base import FailureKind, TransportError

ROOT = Path(__file__).parents[2]
PASSWORD = "pass 'w\"ord$(id)\\"


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    """No password and no fabric configuration of the person who runs the tests."""
    for name in ("CLUSTERCTL_SUDO_PASSWORD", "CLUSTERCTL_INVENTORY", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def nodes(monkeypatch, tmp_path):
    """A function ``nodes(farm, limit=, accept_new_host_keys=, config=, **defaults)``; all groups are closed after."""
    opened = []

    def make(farm, *, limit=None, accept_new_host_keys=False, config=None, **defaults):
        for name, value in farm.env.items():
            monkeypatch.setenv(name, value)
        opened.append(
            clusterctl.fabric.group(
                farm.inventory(tmp_path, **defaults), limit=limit, accept_new_host_keys=accept_new_host_keys,
                config=config,
            )
        )  # fmt: skip
        return opened[-1]

    yield make
    for group in opened:
        group.close()
    deadline = time.monotonic() + 20
    while left := [t.name for t in threading.enumerate() if "clusterctl" in t.name]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def failures(call, *arguments, **options):
    """Return what failed by node, and what the other nodes returned."""
    with pytest.raises(GroupException) as raised:
        call(*arguments, **options)
    result = raised.value.result
    return (
        {connection.host: error for connection, error in result.failed.items()},
        {connection.host: done for connection, done in result.succeeded.items()},
    )


def test_a_command_runs_on_every_node_and_results_come_in_inventory_order(small_farm, nodes):
    group = nodes(small_farm)
    assert isinstance(group, fabric.Group)
    assert all(isinstance(connection, fabric.Connection) for connection in group)
    done = group.run("echo $SSH_CONNECTION; exit 0", hide=True)
    assert [connection.host for connection in done] == [node.name for node in small_farm.nodes]
    for node, result in zip(small_farm.nodes, done.values(), strict=True):
        assert result.ok and f" {node.address} {node.port}" in result.stdout
    errors, others = failures(
        group.run, 'test "${SSH_CONNECTION#* 127}" != "$SSH_CONNECTION" && exit 3', hide=True
    )
    assert not others and {error.result.exited for error in errors.values()} == {3}


def test_the_same_connection_is_used_until_the_group_is_closed_and_again_after(sshd_farm, nodes):
    farm = sshd_farm(2)
    with nodes(farm) as group:
        for _ in range(3):
            group.run("true")
        assert [node.connections for node in farm.nodes] == [1, 1]
        assert all(connection.is_connected for connection in group)
    assert not any(connection.is_connected for connection in group)
    assert group.run("echo back", hide=True).succeeded
    assert [node.connections for node in farm.nodes] == [2, 2]


def test_a_node_that_is_down_fails_beside_the_others(sshd_farm, nodes):
    farm = sshd_farm(2, refusing=1)
    errors, others = failures(nodes(farm).run, "echo up", hide=True)
    assert set(others) == {"node01", "node02"} and set(errors) == {"node03"}
    error = errors["node03"]
    assert isinstance(error, TransportError) and error.failure.kind is FailureKind.REFUSED
    assert error.message.startswith("node03 (root@") and error.message.endswith("connection refused")
    assert error.hint


def test_host_keys_are_verified_and_accepted_only_on_request(sshd_farm, nodes):
    farm = sshd_farm(1, changed=1, unknown=1)
    errors, others = failures(nodes(farm).run, "true")
    assert set(others) == {"node01"}
    assert errors["node02"].failure.kind is FailureKind.HOST_KEY_CHANGED
    assert errors["node03"].failure.kind is FailureKind.HOST_KEY_UNKNOWN
    errors, others = failures(nodes(farm, accept_new_host_keys=True).run, "true")
    assert set(others) == {"node01", "node03"}
    assert nodes(farm, limit="node03").run("true").succeeded, "the key was recorded"


def test_a_refused_login_says_which_keys_were_tried(small_farm, nodes, tmp_path):
    from sshd_farm import make_key

    stranger = make_key(tmp_path / "stranger")
    errors, others = failures(nodes(small_farm, limit="node01", identity_file=stranger).run, "true")
    assert not others and errors["node01"].failure.kind is FailureKind.AUTH
    assert str(stranger) in str(errors["node01"])


def test_a_connection_that_is_lost_is_an_error_of_that_node_and_opened_again(sshd_farm, nodes, tmp_path):
    farm = sshd_farm(1)
    connection = nodes(farm)[0]
    cut = threading.Thread(target=lambda: (began.wait(20), farm.nodes[0].drop_connections()))
    began = threading.Event()

    class Began(io.StringIO):
        def write(self, text):
            if "began" in text:
                began.set()
            return len(text)

    cut.start()
    with pytest.raises(TransportError) as raised:
        connection.run("echo began; sleep 60", out_stream=Began(), in_stream=False)
    cut.join()
    assert raised.value.failure.kind is FailureKind.LOST and "sleep 60" in str(raised.value)
    assert connection.run("echo again", hide=True, in_stream=False).stdout == "again\n"
    assert connection.put(io.BytesIO(b"x"), str(tmp_path / "x"))
    farm.nodes[0].drop_connections()
    connection.transport.join(20)
    assert connection.put(io.BytesIO(b"y"), str(tmp_path / "x")), (
        "no file transfer of the old connection is used"
    )
    assert (tmp_path / "x").read_bytes() == b"y"
    farm.nodes[0].stop()
    with pytest.raises(TransportError) as raised:
        connection.put(io.BytesIO(b"x"), str(tmp_path / "y"))
    assert raised.value.failure.kind in (FailureKind.LOST, FailureKind.REFUSED)


def test_fabrics_timeout_is_fabrics(small_farm, nodes, monkeypatch):
    reported = threading.Event()
    close = fabric.runners.Remote.kill

    def kill(runner):
        close(runner)
        reported.wait(20)

    # The command's wait ends when its channel is closed, here always before the thread that closed it.
    monkeypatch.setattr(fabric.runners.Remote, "kill", kill)
    errors, others = failures(nodes(small_farm, limit="node01").run, "sleep 27.31", timeout=1, hide=True)
    reported.set()
    assert not others and isinstance(errors["node01"], CommandTimedOut)


def test_a_connection_that_ends_while_fabrics_timeout_closes_the_channel_is_no_error(
    small_farm, nodes, monkeypatch
):
    timers = []
    close = fabric.runners.Remote.kill

    def kill(runner):
        timers.append(threading.current_thread())
        close(runner)
        raise EOFError  # as paramiko does if the connection is closed before its CLOSE is sent

    monkeypatch.setattr(fabric.runners.Remote, "kill", kill)
    errors, _ = failures(nodes(small_farm, limit="node01").run, "sleep 27.31", timeout=1, hide=True)
    assert isinstance(errors["node01"], CommandTimedOut)
    (timer,) = timers
    # pytest fails a test during which a thread ended with an exception.
    timer.join(20)
    assert not timer.is_alive()


def test_files_go_to_every_node_and_come_back_by_name(small_farm, nodes, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(300_000))
    source.chmod(0o640)
    group = nodes(small_farm, limit="node[01-02]")
    for connection in group:
        connection.put(str(source), str(tmp_path / f"at-{connection.host}"))
    for connection in group:
        there = tmp_path / f"at-{connection.host}"
        assert there.read_bytes() == source.read_bytes() and there.stat().st_mode & 0o777 == 0o640
    group.get(str(source))
    assert (tmp_path / "node01" / "source").read_bytes() == (tmp_path / "node02" / "source").read_bytes()
    # The nodes are one machine, where two of them must not write one file at once.
    assert len(nodes(small_farm, limit="node01").put(str(source), str(tmp_path / "all"))) == 1
    assert (tmp_path / "all").read_bytes() == source.read_bytes()
    errors, _ = failures(group.get, "/no/such/file")
    assert {type(error) for error in errors.values()} == {FileNotFoundError}


def test_input_reaches_the_command(small_farm, nodes):
    connection = nodes(small_farm, limit="node01")[0]
    assert connection.run("head -n 1", in_stream=io.StringIO("one\n"), hide=True).stdout == "one\n"


def test_limit_takes_names_ranges_and_refuses_the_rest(small_farm, nodes, tmp_path):
    assert [c.host for c in nodes(small_farm, limit="node[02-03]")] == ["node02", "node03"]
    assert [c.host for c in nodes(small_farm, limit=["node04", "node01"])] == ["node01", "node04"]
    with pytest.raises(UsageError, match="node9 is not a node or group"):
        nodes(small_farm, limit="node9")
    path = tmp_path / "typo.yaml"
    path.write_text("version: 1\ndefaults:\n  usr: root\nnodes:\n  - name: gpu01\n")
    with pytest.raises(InventoryError, match="usr"):
        clusterctl.fabric.group(str(path))
    path.write_text("version: 1\nnodes:\n  - name: head\n    connection: local\n  - name: gpu01\n")
    with pytest.raises(UsageError, match="head has 'connection: local'"):
        clusterctl.fabric.group(path)
    assert [c.host for c in clusterctl.fabric.group(path, limit="gpu01")] == ["gpu01"]
    (tmp_path / "inventory.yaml").unlink()
    with pytest.raises(UsageError, match="without an inventory"):
        clusterctl.fabric.group()


def test_behind_a_jump_host_over_one_shared_connection(sshd_farm, nodes):
    farm = sshd_farm(4)
    jump, *behind = farm.nodes
    group = nodes(farm, limit="node[02-04]", proxy_jump=f"{jump.address}:{jump.port}")
    done = group.run("echo $SSH_CONNECTION", hide=True)
    assert [c.host for c in done] == [node.name for node in behind]
    assert jump.connections == 1 and [node.connections for node in behind] == [1, 1, 1]
    group.close()
    assert group.run("true").succeeded and jump.connections == 2, (
        "the jump host's connection was closed as well"
    )
    group.close()
    jump.stop()
    errors, others = failures(group.run, "true")
    assert not others
    assert {e.failure.kind for e in errors.values()} == {FailureKind.REFUSED}
    assert all("jump host" in str(e) for e in errors.values())


def test_an_ssh_config_counts_once(sshd_farm, nodes):
    """fabric would read it as well, and send the name, the user and the jump host through it a second time."""
    farm = sshd_farm(2)
    jump = farm.nodes[1]
    (farm.directory / "ssh_config").write_text(
        f"Host {farm.nodes[0].address}\n  ProxyJump {jump.address}:{jump.port}\n"
        "Host node01\n  HostName no-such-name.invalid\n  ProxyCommand false\n"
    )
    group = nodes(farm, limit="node01")
    assert group.run("true").succeeded and group[0].host == "node01"
    assert jump.connections == 1


@pytest.fixture
def _sudo(tier_unavailable):
    if shutil.which("sudo") is None:
        tier_unavailable("sudo is not installed")


@pytest.mark.usefixtures("_sudo")
def test_root_without_a_password_and_for_root_itself(sshd_farm, system_user, nodes):
    account = system_user(sudo="(ALL) NOPASSWD: ALL")
    farm = sshd_farm(2, user=account.name)
    group = nodes(farm)
    assert {r.stdout for r in group.run("id -un", hide=True).values()} == {f"{account.name}\n"}
    assert {r.stdout for r in group.sudo("id -un", hide=True).values()} == {"root\n"}
    root = nodes(sshd_farm(1))
    assert {r.stdout for r in root.sudo("id -un; echo $SUDO_USER", hide=True).values()} == {"root\n\n"}, (
        "no sudo"
    )
    assert {r.stdout for r in root.sudo("id -un", user=account.name, hide=True).values()} == {
        f"{account.name}\n"
    }
    errors, _ = failures(nodes(farm, become="none").sudo, "id")
    assert {error.failure.kind for error in errors.values()} == {FailureKind.SUDO}
    assert "become" in errors["node01"].hint


@pytest.mark.usefixtures("_sudo")
def test_root_with_a_password(sshd_farm, system_user, nodes, monkeypatch):
    account = system_user(sudo="(ALL) ALL", password=PASSWORD)
    farm = sshd_farm(3, user=account.name)
    errors, _ = failures(nodes(farm).sudo, "id")
    assert all("no password was given" in str(error) for error in errors.values())
    own = fabric.Config(overrides={"sudo": {"password": PASSWORD}})
    assert {r.stdout for r in nodes(farm, config=own).sudo("id -un", hide=True).values()} == {"root\n"}
    monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", PASSWORD)
    group = nodes(farm)
    for _ in range(2):
        done = group.sudo("id -un", hide=True)
        assert {r.stdout for r in done.values()} == {"root\n"}
        assert PASSWORD not in repr(done)
    errors, _ = failures(nodes(farm, limit="node01").sudo, "id", password="wrong", hide=True)
    assert isinstance(errors["node01"], AuthFailure), "a password of one's own is fabric's affair"


@pytest.mark.usefixtures("_sudo")
def test_a_wrong_password_reaches_one_node_only(sshd_farm, system_user, nodes, monkeypatch):
    monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", "wrong")
    account = system_user(sudo="(ALL) ALL", password=PASSWORD)
    errors, others = failures(nodes(sshd_farm(4, user=account.name)).sudo, "id")
    said = [str(error) for error in errors.values()]
    assert not others and len({text.rpartition("sudo refused")[2] for text in said}) == 1


def test_at_most_fanout_nodes_at_once(small_farm, nodes, monkeypatch, tmp_path):
    monkeypatch.setenv("CLUSTERCTL_FANOUT", "1")
    lock = tmp_path / "lock"
    group = nodes(small_farm)
    assert group.fanout == 1
    assert len(group.run(f"mkdir {lock} && sleep 0.1 && rmdir {lock}", hide=True).succeeded) == 4


def test_the_guide_runs_as_printed(sshd_farm, nodes, tmp_path):
    """Its fabfile by fabric's own program, and its script by Python."""
    farm = sshd_farm(4, prefix="gpu")
    nodes(farm)
    guide = (ROOT / "docs" / "guides" / "scripting.md").read_text(encoding="utf-8")
    fabfile, script = re.findall(r"^```python\n(.*?)^```", guide, re.M | re.S)[:2]
    (tmp_path / "fabfile.py").write_text(fabfile)
    (tmp_path / "kernels.py").write_text(script)

    def run(*words):
        done = subprocess.run(
            (sys.executable, *words), cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
            stdin=subprocess.DEVNULL, env={**os.environ, **farm.env, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    status, said, errors = run("-m", "fabric", "uptime", "--limit", "gpu[01-02]")
    assert status == 0, errors
    assert [line.split(":")[0] for line in said.splitlines()] == ["gpu01", "gpu02"]
    (tmp_path / "sysctl.conf").write_text("# nothing\n")
    status, said, errors = run("kernels.py")
    assert status == 0, errors
    assert said == f"gpu[01-04]: {os.uname().release}\n"
    farm.nodes[2].stop()
    status, said, errors = run("kernels.py")
    assert status == 1 and said == f"gpu[01-02,04]: {os.uname().release}\n"
    assert "connection refused" in errors and "gpu03 (root@" in errors and "is sshd running" in errors
