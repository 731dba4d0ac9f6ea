"""The way to a command over SSH, against real sshd: addresses, host keys, private keys, agents, and every refusal."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time

import pytest
import sshd_farm as farms
from ssh_transports import failure, transports

from clusterctl.inventory.model import Node
from clusterctl.transport.base import FailureKind
from clusterctl.transport.connect import Connector


@pytest.fixture
def connect(monkeypatch):
    with transports(monkeypatch) as made:
        yield made


def test_failures_that_come_before_a_login(sshd_farm, connect):
    farm = sshd_farm(1, refusing=1, silent=1, changed=1, unknown=1)
    connector = Connector(connect_timeout_s=1)
    kinds = {}
    for index, there in enumerate(farm.nodes):
        began = time.monotonic()
        transport = connect(farm, index, connector)
        if index:
            found = failure(transport.run, ("true",))
            kinds[index] = found.kind
            assert f"{there.name} (root@{there.address}:{there.port})" in found.message and found.hint
        else:
            transport.run(("true",))
        # Without its limit, the silent one would keep us for the login's 30 s.
        assert time.monotonic() - began < 20
    assert list(kinds.values()) == [
        FailureKind.REFUSED, FailureKind.TIMEOUT, FailureKind.HOST_KEY_CHANGED, FailureKind.HOST_KEY_UNKNOWN
    ]  # fmt: skip
    assert (
        failure(connect(farm, 0, connector, port=farm.nodes[0].port + 1).run, ("true",)).kind
        is FailureKind.REFUSED
    )
    there = Node(name="x", address="no-such-name.invalid", user="root")
    assert failure(connector(there).run, ("true",)).kind is FailureKind.DNS
    for odd in ("root@host", "host:22", "a b", "x" * 300, "-oProxyCommand=x"):
        assert failure(connector(Node(name="x", address=odd)).run, ("true",)).kind is FailureKind.DNS


def test_a_node_without_a_route():
    # Linux has no TCP route to the broadcast address, whatever networks there are.
    found = failure(
        Connector(connect_timeout_s=0.5)(Node(name="x", address="255.255.255.255")).run, ("true",)
    )
    assert found.kind is FailureKind.UNREACHABLE
    assert "255.255.255.255:22" in found.message


def test_what_answers_is_not_ssh(connect, small_farm, tmp_path):
    import socket

    transport = connect(small_farm)

    def answer(server, text):
        # Until its listener is gone: who hangs up before SSH began is asked again.
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                with peer:
                    peer.sendall(text)

    for text in (b"HTTP/1.0 400 Bad Request\r\n" * 120, b""):
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=answer, args=(server, text))
            thread.start()
            there = Node(name="web", address="127.0.0.1", port=server.getsockname()[1])
            found = failure(Connector(connect_timeout_s=5)(there).run, ("true",))
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
        assert found.kind in (FailureKind.PROTOCOL, FailureKind.LOST), found
    transport.close()


def test_accepting_new_host_keys(sshd_farm, connect):
    farm = sshd_farm(0, unknown=2, changed=1)
    accepting = Connector(accept_new_host_keys=True, connect_timeout_s=8)
    before = farm.known_hosts.read_text()
    for index in (1, 2):
        assert connect(farm, index, accepting).run(("echo", "in")).text == "in\n"
    assert failure(connect(farm, 0, accepting).run, ("true",)).kind is FailureKind.HOST_KEY_CHANGED
    added = farm.known_hosts.read_text().removeprefix(before).splitlines()
    assert len(added) == 2 and all(" ssh-ed25519 " in line for line in added)
    assert connect(farm, 1).run(("true",)).returncode == 0, "a run without the flag trusts what was recorded"


def test_a_server_is_asked_for_the_type_of_key_that_is_known(sshd_farm, connect):
    farm = sshd_farm(1)
    there = farm.nodes[0]
    there.stop()
    rsa = farms.make_key(farm.directory / "host_rsa", "rsa")
    there.command = (*there.command, "-h", str(rsa))
    there.start()
    farm.known_hosts.write_text(f"[{there.address}]:{there.port} {farms.public_key(rsa)}\n")
    farms.wait_for_listeners(farm.nodes)
    assert connect(farm).run(("true",)).returncode == 0


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_kinds_of_keys(small_farm, connect, tmp_path, kind):
    key = farms.make_key(tmp_path / "key", kind)
    with small_farm.authorized_keys.open("a") as keys:
        keys.write(farms.public_key(key) + "\n")
    assert connect(small_farm, identity_file=str(key)).run(("true",)).returncode == 0


def test_logins_that_are_refused_say_what_was_tried(small_farm, connect, tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    stranger = farms.make_key(tmp_path / "stranger")
    found = failure(connect(small_farm, identity_file=str(stranger)).run, ("true",))
    assert found.kind is FailureKind.AUTH
    assert str(stranger) in found.message and "user root" in found.message and "authorized_keys" in found.hint
    locked = farms.make_key(tmp_path / "locked", passphrase="open sesame")
    found = failure(connect(small_farm, identity_file=str(locked)).run, ("true",))
    assert found.kind is FailureKind.AUTH and "passphrase" in found.message and "ssh-add" in found.hint
    found = failure(connect(small_farm, identity_file=str(tmp_path / "absent")).run, ("true",))
    assert found.kind is FailureKind.AUTH and "no such file" in found.message
    (tmp_path / "garbage").write_text("-----BEGIN nonsense")
    found = failure(connect(small_farm, identity_file=str(tmp_path / "garbage")).run, ("true",))
    assert found.kind is FailureKind.AUTH and "as a private key" in found.message
    found = failure(connect(small_farm, identity_file=f"{small_farm.identity_file}.pub").run, ("true",))
    assert (
        found.kind is FailureKind.AUTH and "it is a public one, name the file without .pub" in found.message
    )


def test_a_key_that_others_may_read_is_refused_as_ssh_refuses_it(small_farm, connect, tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    exposed = tmp_path / "exposed key"
    exposed.write_bytes(small_farm.identity_file.read_bytes())
    for mode, taken in ((0o644, False), (0o640, False), (0o600, True), (0o400, True)):
        exposed.chmod(mode)
        node = small_farm.nodes[0]
        options = ("BatchMode=yes", f"UserKnownHostsFile={small_farm.known_hosts}", "IdentitiesOnly=yes")
        words = [word for option in options for word in ("-o", option)]
        ssh = subprocess.run(
            ("ssh", "-F", "none", *words, "-i", str(exposed), "-p", str(node.port), f"root@{node.address}", "true"),
            stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        assert (ssh.returncode == 0) is taken, ssh.stderr
        there = connect(small_farm, identity_file=str(exposed))
        if taken:
            assert there.run(("true",)).returncode == 0
            continue
        found = failure(there.run, ("true",))
        assert found.kind is FailureKind.AUTH
        assert f"others may read it (mode {mode:04o}), so that ssh refuses it" in found.message
        assert found.hint == f"chmod 600 '{exposed}'"


def test_a_key_in_the_agent(small_farm, connect, tmp_path, monkeypatch):
    locked = farms.make_key(tmp_path / "locked", passphrase="open sesame")
    with small_farm.authorized_keys.open("a") as keys:
        keys.write(farms.public_key(locked) + "\n")
    socket_path = tmp_path / "agent"
    agent = subprocess.Popen(("ssh-agent", "-D", "-a", str(socket_path)), stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket_path))
        ask = tmp_path / "ask"
        ask.write_text("#!/bin/sh\necho open sesame\n")
        ask.chmod(0o700)
        for _ in range(100):
            if socket_path.exists():
                break
            time.sleep(0.02)
        subprocess.run(
            ("ssh-add", str(locked)), check=True, timeout=20, stdin=subprocess.DEVNULL, capture_output=True,
            env={**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"},
        )  # fmt: skip
        assert connect(small_farm, identity_file=str(locked)).run(("true",)).returncode == 0
    finally:
        agent.terminate()
        agent.wait(10)
