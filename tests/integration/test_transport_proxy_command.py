"""Nodes behind a ProxyCommand of ssh_config, against real sshd: what is reached, and every way in which it fails."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from pathlib import Path

import pytest
from listening import wait_until
from ssh_transports import failure, transports

from clusterctl.inventory.model import Node
from clusterctl.transport.base import FailureKind
from clusterctl.transport.connect import Connector
from clusterctl.transport.ssh.session import SshSession
from clusterctl.transport.sudo import PASSWORD_VARIABLE

# What nc does; it is not installed everywhere.
RELAY = """
import os, selectors, socket, sys
there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
with selectors.DefaultSelector() as both:
    both.register(0, selectors.EVENT_READ, lambda: there.sendall(os.read(0, 65536) or sys.exit(0)))
    both.register(there, selectors.EVENT_READ, lambda: os.write(1, there.recv(65536) or sys.exit(0)))
    while True:
        for key, _ in both.select():
            key.data()
"""


@pytest.fixture
def relay(tmp_path):
    program = tmp_path / "relay.py"
    program.write_text(RELAY)
    return f"{sys.executable} {program}"


@pytest.fixture
def behind(monkeypatch, tmp_path, small_farm):
    """A function that gives a transport to a node behind a ProxyCommand; its own address is unusable."""
    with transports(monkeypatch) as made:

        def make(command, *more, timeout_s=60, **settings):
            made(small_farm)
            config = tmp_path / "config"
            there = small_farm.nodes[0]
            lines = [f"HostName {there.address}", f"Port {there.port}", f"ProxyCommand {command}", *more]
            config.write_text("Host hidden\n" + "".join(f"  {line}\n" for line in lines))
            monkeypatch.setenv("CLUSTERCTL_SSH_CONFIG", str(config))
            settings = {"user": "root", "identity_file": str(small_farm.identity_file), **settings}
            return Connector(connect_timeout_s=timeout_s)(Node(name="n1", address="hidden", **settings))

        yield make


def running(text):
    """Whether a process of this machine has the text in its command line."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in line.read_bytes():
                return True
    return False


def test_a_node_is_reached_through_the_command_which_ends_with_the_connection(behind, relay):
    transport = behind(f"{relay} %h %p # %r")
    done = transport.run(("cat",), stdin=b"x" * 3_000_000)
    assert len(done.stdout) == 3_000_000
    assert transport.run(("echo", "again")).text == "again\n" and transport.is_open
    assert running("relay.py")
    transport.close()
    wait_until(lambda: not running("relay.py"), "the command ends")


def test_a_node_is_reached_through_a_jump_host_behind_a_command(behind, relay, small_farm):
    there = small_farm.nodes[1]
    inner = f"Host inner\n  HostName {there.address}\n  Port {there.port}\n  ProxyJump hidden"
    transport = behind(f"{relay} %h %p", "User root", inner)
    connector = Connector(connect_timeout_s=60)
    node = Node(name="n2", address="inner", user="root", identity_file=str(small_farm.identity_file))
    through = connector(node)
    try:
        assert through.run(("true",)).returncode == 0
    finally:
        through.close()
        connector.close()
        transport.close()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "sh -c 'echo no route to the bastion >&2; exit 3'",
            "ended with status 3; it wrote: no route to the bastion",
        ),
        ("/no/such/program %h", "ended with status 127; it wrote: "),
        ("sh -c 'kill -9 $$'", "was ended by signal 9; it wrote: nothing"),
    ],
)
def test_a_command_that_ends_is_named_with_its_status_and_its_words_at_once(
    behind, command, said, monkeypatch
):
    attempts, connected = [], SshSession._connected

    def counted(*given, **named):
        attempts.append(given)
        return connected(*given, **named)

    monkeypatch.setattr(SshSession, "_connected", counted)
    found = failure(behind(command).run, ("true",))
    assert found.kind is FailureKind.UNREACHABLE and f"its ProxyCommand {said}" in found.message
    assert len(attempts) == 1, "tried again although it cannot help"
    assert found.hint.startswith("run the command by hand, and fix it in ssh_config: ")


@pytest.mark.parametrize("command", ["sh -c 'yes garbage'", "sh -c 'yes | tr -d \"\\n\"'", "cat /dev/zero"])
def test_garbage_is_no_ssh_server_and_ends_within_the_limits(behind, command):
    began = time.monotonic()
    found = failure(behind(command, timeout_s=2).run, ("true",))
    assert found.kind in (FailureKind.PROTOCOL, FailureKind.TIMEOUT)
    assert "(through ProxyCommand " in found.message
    assert time.monotonic() - began < 20


def test_a_command_that_hangs_is_waited_for_as_long_as_for_a_connection_and_then_ended(behind):
    began = time.monotonic()
    found = failure(behind("sh -c 'trap : HUP; sleep 4711.5'", timeout_s=1).run, ("true",))
    assert found.kind is FailureKind.TIMEOUT
    assert re.search(r"no SSH greeting within [0-9.]+ s \(through ProxyCommand ", found.message)
    assert time.monotonic() - began < 25, "a login's limit is 30 s"
    wait_until(lambda: not running("4711.5"), "the command ends")


def test_close_from_another_thread_ends_a_command_that_hangs(behind):
    transport = behind("sleep 4712.5", timeout_s=60)
    threading.Timer(0.5, transport.close).start()
    found = failure(transport.run, ("true",))
    assert found.kind is FailureKind.LOST and "interrupted" in found.message
    wait_until(lambda: not running("4712.5"), "the command ends")


def test_the_command_gets_neither_the_sudo_password_nor_a_secret_shown(behind, monkeypatch, tmp_path):
    monkeypatch.setenv(PASSWORD_VARIABLE, "correct horse")
    found = failure(behind(f"env PROXY_PASSWORD=hunter2 sh -c 'env > {tmp_path}/env; exit 4'").run, ("true",))
    environment = (tmp_path / "env").read_text()
    assert "PATH=" in environment and "correct horse" not in environment
    assert "status 4" in found.message and "hunter2" not in f"{found.message} {found.hint}"


def test_a_name_that_would_be_shell_text_is_refused(behind, tmp_path):
    from clusterctl.errors import ConfigError

    with pytest.raises(ConfigError, match="cannot be used in the ProxyCommand of ssh_config"):
        behind(f"true %r; touch {tmp_path}/run", user="$(touch x)").run(("true",))
    assert not (tmp_path / "run").exists()
