"""The SSH transport against real sshd: commands, files, deadlines, and every way in which a node can fail."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import paramiko
import pytest
import sshd_farm as farms

from clusterctl.errors import CommandError
from clusterctl.inventory.model import Node
from clusterctl.transport.base import FailureKind, TransportError
from clusterctl.transport.connect import Connector


def node_of(farm, index=0, **settings):
    there = farm.nodes[index]
    values = {"user": farm.user, "identity_file": str(farm.identity_file), "port": there.port, **settings}
    return Node(name=there.name, address=there.address, **values)


@pytest.fixture
def connect(monkeypatch):
    """A function ``connect(farm, index, connector=None, **settings) -> Transport``; all are closed after."""
    with contextlib.ExitStack() as stack:

        def make(farm, index=0, connector=None, **settings):
            for name, value in farm.env.items():
                monkeypatch.setenv(name, value)
            transport = (connector or Connector(connect_timeout_s=8))(node_of(farm, index, **settings))
            stack.callback(transport.close)
            return transport

        yield make


def failure(call, *args, **options):
    with pytest.raises(TransportError) as raised:
        call(*args, **options)
    return raised.value.failure


def running(marker):
    """Processes whose command line contains a marker."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (process / "cmdline").read_bytes() and int(process.name) != os.getpid():
                found.append(int(process.name))
    return found


def wait_until_gone(marker, timeout_s):
    deadline = time.monotonic() + timeout_s
    while running(marker):
        assert time.monotonic() < deadline, f"{marker} survives: {running(marker)}"
        time.sleep(0.05)


def test_run_over_one_reused_connection(small_farm, connect):
    there = small_farm.nodes[0]
    connections, execs = there.connections, there.execs
    transport = connect(small_farm)
    assert there.connections == connections, "nothing is contacted before the first command"
    done = transport.run(
        ("sh", "-c", 'cat; printf "%s|" "$@" "$V"; echo err >&2; exit 3', "sh", "a'b", "$(id)\n!"),
        stdin=b"in\0\n",
        env={"V": " x  y "},
        timeout_s=30,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"in\0\na'b|$(id)\n!| x  y |", b"err\n")
    assert transport.run(("no-such-program",)).returncode == 127
    assert transport.run(("sh", "-c", "kill -9 $$")).returncode == 137
    assert transport.run(("sh", "-c", "kill -9 $$"), timeout_s=9).returncode == 137
    transport.close()
    transport.close()
    assert (there.connections - connections, there.execs - execs) == (1, 4)


def test_a_closed_transport_stays_closed(small_farm, connect):
    transport = connect(small_farm)
    transport.close()
    assert failure(transport.run, ("true",)).kind is FailureKind.LOST


def test_a_connection_keeps_its_socket_until_its_thread_has_ended(small_farm, connect):
    transport = connect(small_farm)
    transport.run(("true",))
    wire = transport._opened
    handling, seen = threading.Event(), []

    class Answered:
        """Holds the connection's thread in the middle of its work, between two reads."""

        def set(self):
            handling.set()
            ended.wait(0.5)
            seen.append(wire.raw.fileno())

    ended = threading.Event()

    def end():
        handling.wait(10)
        wire.end()
        ended.set()

    ending = threading.Thread(target=end)
    ending.start()
    wire.completion_event = Answered()
    question = paramiko.Message()
    question.add_byte(paramiko.common.cMSG_GLOBAL_REQUEST)
    question.add_string("keepalive@openssh.com")
    question.add_boolean(True)
    wire._send_user_message(question)
    ending.join(20)
    assert not wire.is_alive()
    # The thread itself closes the socket when it has seen its end, before it says so once more.
    assert seen[0] != -1, "another connection could have got the number of a socket still read from"
    assert wire.raw.fileno() == -1


def test_large_input_and_output_pass_each_other(small_farm, connect):
    data = os.urandom(12_000_000)
    transport = connect(small_farm)
    assert transport.run(("cat",), stdin=data, timeout_s=60).stdout == data
    assert transport.run(("true",), stdin=data).returncode == 0, "a command need not read its input"


def test_input_that_nobody_reads_does_not_cost_the_connection(small_farm, connect):
    # The command's end and our input cross on the wire; an EOF or data after a CLOSE would end the connection.
    there, transport = small_farm.nodes[1], connect(small_farm, 1)
    connections = there.connections
    for size in (0, 10, 60_000, 400_000) * 15:
        assert transport.run(("true",), stdin=b"x" * size, timeout_s=20).returncode == 0
    assert there.connections - connections == 1 and "nonexistent" not in there.log_text()


def test_lines_stream(small_farm, connect):
    seen = []
    connect(small_farm).run(
        ("sh", "-c", "echo a; sleep 0.4; printf b"),
        on_line=lambda line: seen.append((line, time.monotonic())),
    )
    assert [line for line, _ in seen] == ["a", "b"] and seen[1][1] - seen[0][1] > 0.3


def test_an_exception_in_on_line_ends_the_command(small_farm, connect):
    def broken(line):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        connect(small_farm).run(("sh", "-c", "echo; exec sleep 4711.1"), on_line=broken, timeout_s=60)
    wait_until_gone("4711.1", 30)


def test_files_whole_or_not_at_all(small_farm, connect, tmp_path):
    transport, path = connect(small_farm), tmp_path / "a 'file'"
    transport.put(b"\0data", str(path), mode=0o640)
    assert path.read_bytes() == b"\0data" and path.stat().st_mode & 0o777 == 0o640
    assert transport.get(str(path)) == b"\0data"
    with pytest.raises(CommandError, match="No such file"):
        transport.get(str(tmp_path / "absent"))
    with pytest.raises(CommandError, match="directory"):
        transport.put(b"", str(tmp_path))
    assert list(tmp_path.iterdir()) == [path]


def test_a_connection_lost_while_a_file_is_sent_leaves_the_old_file(sshd_farm, connect, tmp_path):
    farm = sshd_farm(1)
    path = tmp_path / "f"
    path.write_text("old")
    transport = connect(farm)
    transport.run(("true",))
    data = os.urandom(1_000_000) * 300
    threading.Timer(0.2, farm.nodes[0].drop_connections).start()
    assert failure(transport.put, data, str(path)).kind is FailureKind.LOST
    time.sleep(1)
    # The node's side of it ends by itself, on a busy machine later.
    deadline = time.monotonic() + 30
    while list(tmp_path.iterdir()) != [path] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_at_the_deadline_the_command_and_its_children_end(small_farm, connect):
    transport = connect(small_farm)
    transport.run(("true",))
    began = time.monotonic()
    found = failure(transport.run, ("sh", "-c", "trap '' TERM; sleep 4711.2 & sleep 4711.2"), timeout_s=0.5)
    assert found.kind is FailureKind.DEADLINE and "0.5 s" in found.message and "sleep" in found.message
    assert time.monotonic() - began < 30
    wait_until_gone("4711.2", 30)
    assert transport.run(("echo", "still here")).text == "still here\n"


def test_a_command_whose_connection_is_lost_ends_at_its_deadline(sshd_farm, connect):
    farm = sshd_farm(1)
    transport = connect(farm)

    def drop_once_it_runs():
        deadline = time.monotonic() + 30
        while not running("4711.3") and time.monotonic() < deadline:
            time.sleep(0.05)
        farm.nodes[0].drop_connections()

    dropper = threading.Thread(target=drop_once_it_runs)
    dropper.start()
    found = failure(transport.run, ("sleep", "4711.3"), timeout_s=8)
    dropper.join()
    assert found.kind is FailureKind.LOST and "sleep" in found.message
    assert farm.nodes[0].address in found.message and str(farm.nodes[0].port) in found.message
    wait_until_gone("4711.3", 30)
    assert transport.run(("echo", "back")).text == "back\n", "the next command connects anew"


def test_a_background_child_does_not_hold_the_result_back(small_farm, connect):
    began = time.monotonic()
    assert connect(small_farm).run(("sh", "-c", "sleep 4711.4 & echo done")).stdout == b"done\n"
    assert time.monotonic() - began < 60
    for pid in running("4711.4"):
        farms.end(pid)


def test_output_is_bounded(small_farm, connect):
    connector = Connector(max_output_bytes=1_000_000)
    found = failure(connect(small_farm, connector=connector).run, ("yes", "4711.5"), timeout_s=30)
    assert found.kind is FailureKind.PROTOCOL and "0.9537 MiB" in found.message
    wait_until_gone("4711.5", 30)


@pytest.mark.parametrize("shell", ["tcsh", "bash", "noisy"])
def test_any_login_shell_and_its_noise(sshd_farm, connect, system_user, tier_unavailable, shell):
    if shell == "noisy":
        account = system_user(shell="/bin/bash")
        (account.home / ".bashrc").write_text("echo Welcome, have a look at the news; echo beware >&2\n")
    else:
        path = shutil.which(shell)
        if path is None:
            tier_unavailable(f"{shell} is not installed")
        account = system_user(shell=path)
    farm = sshd_farm(1, user=account.name, sshd_config="SetEnv SHLVL=0" if shell == "noisy" else "")
    done = connect(farm).run(("printf", "%s|", "a'b", "!!", "$x", "\\", "two\nlines", "é"), timeout_s=20)
    assert done.stdout == "a'b|!!|$x|\\|two\nlines|é|".encode()


def test_a_login_shell_that_runs_nothing(sshd_farm, connect, system_user):
    account = system_user(shell="/usr/sbin/nologin")
    found = failure(connect(sshd_farm(1, user=account.name)).run, ("true",))
    assert found.kind is FailureKind.PROTOCOL and "not available" in found.message


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


def test_close_from_another_thread_cuts_a_connection_attempt_and_a_command(sshd_farm, connect):
    farm = sshd_farm(1, silent=1)
    for index, command in ((1, ("true",)), (0, ("sleep", "4711.6"))):
        transport = connect(farm, index, Connector(connect_timeout_s=120))
        threading.Timer(0.5, transport.close).start()
        began = time.monotonic()
        assert failure(transport.run, command, timeout_s=120).kind is FailureKind.LOST
        assert time.monotonic() - began < 30
    for pid in running("4711.6"):
        farms.end(pid)
