"""The way to root on real accounts with real sudo: without a password, with one, and every way it can fail."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from terminal_session import TerminalSession

from clusterctl.inventory.model import Become, Node
from clusterctl.transport.base import FailureKind, TransportError
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out

PASSWORD = "pass 'w\"ord$(id)\\"


@pytest.fixture(autouse=True)
def _sudo(tier_unavailable, monkeypatch):
    if shutil.which("sudo") is None:
        tier_unavailable("sudo is not installed")
    monkeypatch.delenv("CLUSTERCTL_SUDO_PASSWORD", raising=False)


@pytest.fixture
def connect(sshd_farm, monkeypatch):
    """A function ``connect(account, connector=None, **settings)``: a transport to a farm of one node."""
    with contextlib.ExitStack() as stack:

        def make(account, connector=None, **settings):
            farm = sshd_farm(1, user=account.name)
            for name, value in farm.env.items():
                monkeypatch.setenv(name, value)
            there = farm.nodes[0]
            node = Node(name=there.name, address=there.address, port=there.port, user=account.name,
                        identity_file=str(farm.identity_file), **settings)  # fmt: skip
            transport = (connector or Connector(connect_timeout_s=60))(node)
            stack.callback(transport.close)
            return transport

        yield make


def failure(call, *args, **options):
    began = time.monotonic()
    with pytest.raises(TransportError) as raised:
        call(*args, **options)
    assert time.monotonic() - began < 28, "a sudo that does not start the command has 30 s"
    assert raised.value.failure.kind is FailureKind.SUDO and PASSWORD not in str(raised.value)
    return raised.value.failure


def test_without_a_password(connect, system_user):
    transport = connect(system_user(sudo="(ALL) NOPASSWD: ALL"))
    assert transport.run(("id", "-u")).text.strip() != "0"
    done = transport.run(
        ("sh", "-c", 'id -u; cat; echo "$V"; exit 4'), stdin=b"in\n", env={"V": "a b"}, as_root=True
    )
    assert (done.returncode, done.stdout) == (4, b"0\nin\na b\n")


def test_files_as_root(connect, system_user, tmp_path):
    transport = connect(system_user(sudo="(ALL) NOPASSWD: ALL"))
    tmp_path.chmod(0o700)
    transport.put(b"secret", str(tmp_path / "f"), mode=0o600, as_root=True)
    assert (tmp_path / "f").stat().st_uid == 0 and (tmp_path / "f").read_bytes() == b"secret"
    assert transport.get(str(tmp_path / "f"), as_root=True) == b"secret"


def test_with_a_password_from_the_environment(connect, system_user, monkeypatch):
    monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", PASSWORD)
    transport = connect(system_user(sudo="(ALL) ALL", password=PASSWORD))
    data = os.urandom(300_000)
    seen = []
    done = transport.run(("sh", "-c", "id -u >&2; cat"), stdin=data, as_root=True, timeout_s=30)
    assert done.stdout == data and done.stderr.endswith(b"0\n")
    # Cached or not, the next command sees its own input and nothing of the password.
    done = transport.run(("cat",), stdin=b"own input\n", as_root=True, on_line=seen.append)
    assert done.returncode == 0 and seen == ["own input"]


def test_the_password_is_in_no_argument_and_no_environment_of_the_node(connect, system_user, monkeypatch):
    monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", PASSWORD)
    account = system_user(sudo="(ALL) ALL", password=PASSWORD)
    transport = connect(account)
    look = "cat /proc/[0-9]*/cmdline /proc/self/environ /proc/$PPID/environ 2>/dev/null"
    found = transport.run(("sh", "-c", look), as_root=True).stdout
    assert b"sudo" in found
    # This test's own process carries it in its environment by design; it is not the node's.
    assert PASSWORD.encode() not in found


def test_a_password_that_a_person_is_asked_for(connect, system_user):
    asked = []
    connector = Connector(connect_timeout_s=60, ask_sudo_password=lambda _: asked.append(1) or PASSWORD)
    transport = connect(system_user(sudo="(ALL) ALL", password=PASSWORD), connector)
    assert transport.run(("id", "-u")).returncode == 0 and not asked
    assert transport.run(("id", "-u"), as_root=True).text == "0\n"
    assert transport.run(("id", "-u"), as_root=True).text == "0\n" and len(asked) == 1


def test_a_password_that_is_not_needed_is_not_asked_for(connect, system_user):
    def never(_question):
        raise AssertionError("asked")

    transport = connect(system_user(sudo="(ALL) NOPASSWD: ALL"), Connector(ask_sudo_password=never))
    assert transport.run(("cat",), stdin=b"x", as_root=True).stdout == b"x"


def test_a_password_is_needed_and_there_is_none(connect, system_user):
    transport = connect(system_user(sudo="(ALL) ALL", password=PASSWORD))
    found = failure(transport.run, ("id",), as_root=True)
    assert "no password was given" in found.message and "CLUSTERCTL_SUDO_PASSWORD" in found.hint


def test_a_wrong_password_is_tried_once(connect, system_user, monkeypatch):
    monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", "wrong")
    transport = connect(system_user(sudo="(ALL) ALL", password=PASSWORD))
    assert "refused the password" in failure(transport.run, ("id",), as_root=True, timeout_s=60).message
    assert "refused" in failure(transport.run, ("id",), as_root=True, timeout_s=60).message


def test_an_account_without_sudo(connect, system_user, monkeypatch):
    account = system_user(password=PASSWORD)
    assert failure(connect(account).run, ("id",), as_root=True).hint
    monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", PASSWORD)
    assert "may not use sudo" in failure(connect(account).run, ("id",), as_root=True).message


def test_requiretty(connect, system_user):
    account = system_user(sudo="(ALL) NOPASSWD: ALL")
    rule = Path("/etc/sudoers.d") / account.name
    rule.write_text(f"Defaults:{account.name} requiretty\n" + rule.read_text())
    assert "requiretty" in failure(connect(account).run, ("id",), as_root=True).message


def test_become_none_never_uses_sudo(connect, system_user):
    account = system_user(sudo="(ALL) NOPASSWD: ALL")
    assert "become" in failure(connect(account, become=Become.NONE).run, ("id",), as_root=True).hint


def test_at_the_deadline_what_runs_as_root_ends_too(connect, system_user):
    transport = connect(system_user(sudo="(ALL) NOPASSWD: ALL"))
    with pytest.raises(TransportError) as raised:
        transport.run(("sleep", "4712.1"), as_root=True, timeout_s=1)
    assert raised.value.failure.kind is FailureKind.DEADLINE
    deadline = time.monotonic() + 30
    while any(b"4712.1" in _cmdline(p) for p in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _cmdline(process):
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def wrong_passwords(log, expected):
    """Wait until sudo has written so many refusals, which it does as it ends, and return their number."""
    deadline = time.monotonic() + 60
    while (found := log.read_text().count("incorrect password")) < expected:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found


def log_of(account, folder):
    """Let sudo write what an account does to a file, and return the file; wrong passwords are counted there."""
    log = folder / "sudo.log"
    log.touch()
    rule = Path("/etc/sudoers.d") / account.name
    rule.write_text(f"Defaults:{account.name} logfile={log}\n" + rule.read_text())
    return log


def test_a_wrong_password_reaches_one_node_only(sshd_farm, system_user, monkeypatch, tmp_path):
    monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", "wrong")
    account = system_user(sudo="(ALL) ALL", password=PASSWORD)
    log = log_of(account, tmp_path)
    farm = sshd_farm(6, user=account.name)
    for name, value in farm.env.items():
        monkeypatch.setenv(name, value)
    nodes = [
        Node(
            name=n.name,
            address=n.address,
            port=n.port,
            user=account.name,
            identity_file=str(farm.identity_file),
        )
        for n in farm.nodes
    ]
    outcome = fan_out(nodes, Connector(), lambda node, t: t.run(("id",), as_root=True))
    said = [f.message for f in outcome.failures.values()]
    assert len(said) == 6
    (tried,) = {text.rpartition(" on ")[2] for text in said}
    assert all(
        f"sudo refused the password of {account.name} ($CLUSTERCTL_SUDO_PASSWORD)" in text for text in said
    )
    assert wrong_passwords(log, 1) == 1 and tried in [n.name for n in nodes]
    assert not [t for t in threading.enumerate() if t.name.startswith("clusterctl")]


@pytest.fixture
def fleet_of_16(sshd_farm, system_user, tmp_path):
    """Sixteen nodes of an account with a sudo password: (environment, inventory, account, sudo's log)."""
    account = system_user(sudo="(ALL) ALL", password="right")
    log = log_of(account, tmp_path)
    farm = sshd_farm(16, user=account.name)
    wanted = f"{{cluster_file: {{path: /etc/sysconfig/rdma/{account.name}, content: a}}}}"
    return farm.env, str(farm.inventory(tmp_path, requirements=wanted)), account, log


def test_two_wrong_answers_and_a_right_one_reach_all_nodes(fleet_of_16, clusterctl, tmp_path):
    env, inventory, account, log = fleet_of_16
    words = (str(clusterctl), "bootstrap", inventory, "--only", "cluster-file", "--dry-run")
    with TerminalSession(words, cwd=tmp_path, env=env, columns=110) as at:
        at.until(rf"^sudo password for {account.name} on node\[01-16\]:$")
        # What this test is about: every node has asked before the answer comes.
        time.sleep(2)
        at.type("wrong 1\n")
        at.until(rf"^sudo refused the password of {account.name} on node\d\d. Try again \(2 left\):$")
        at.type("wrong 2\n")
        at.until(rf"^sudo refused the password of {account.name} on node\d\d. Try again \(1 left\):$")
        at.type("right\n")
        at.until(r"^Plan: 16 changes")
        at.ended()
        assert "without root" not in at.screen and "right" not in at.screen
    assert wrong_passwords(log, 2) == 2


def test_after_three_wrong_answers_nothing_is_asked_and_nothing_applied(fleet_of_16, clusterctl, tmp_path):
    env, inventory, account, log = fleet_of_16
    words = (str(clusterctl), "bootstrap", inventory, "--only", "cluster-file")
    with TerminalSession(words, cwd=tmp_path, env=env, columns=110) as at:
        for asks in (r"^sudo password for ", r"\(2 left\):$", r"\(1 left\):$"):
            at.until(asks)
            at.type("wrong\n")
        assert at.ended() == 5
        assert f"error: sudo refused the password of {account.name} on node" in at.screen
        assert "Apply" not in at.screen and "VARIABLE" not in at.screen
    assert wrong_passwords(log, 3) == 3
    assert not Path(f"/etc/sysconfig/rdma/{account.name}").exists()


def test_ctrl_c_at_the_question_ends_at_once_and_leaves_no_advice(fleet_of_16, clusterctl, tmp_path):
    env, inventory, _, log = fleet_of_16
    with TerminalSession((str(clusterctl), "check", inventory), cwd=tmp_path, env=env, columns=110) as at:
        at.until(r"^sudo password for ")
        at.type("half of it\x03")
        assert at.ended() == 130
        assert at.screen.splitlines()[-2:] == ["Interrupted", "No node was changed."]
        assert "half" not in at.screen
    assert "incorrect password" not in log.read_text()
