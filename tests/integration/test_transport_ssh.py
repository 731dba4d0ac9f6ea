"""The SSH transport against real sshd: commands, files, deadlines, output, and connections that end."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from pathlib import Path

import paramiko
import pytest
import sshd_farm as farms
from listening import wait_until
from ssh_transports import failure, transports

from clusterctl.errors import CommandError
from clusterctl.transport.base import FailureKind
from clusterctl.transport.connect import Connector


@pytest.fixture
def connect(monkeypatch):
    with transports(monkeypatch) as made:
        yield made


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


def test_lines_stream(small_farm, connect, tmp_path):
    """The command goes on when its first line was heard, and not before."""
    heard, seen = tmp_path / "heard", []

    def on_line(line):
        seen.append(line)
        heard.touch()

    script = 'echo a; while [ ! -e "$1" ]; do sleep 0.02; done; printf b'
    connect(small_farm).run(("sh", "-c", script, "sh", str(heard)), on_line=on_line, timeout_s=60)
    assert seen == ["a", "b"]


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


@pytest.mark.parametrize("cipher", ["aes128-gcm@openssh.com", "aes256-ctr"])
def test_a_large_file_arrives_whole_while_keys_are_exchanged_again(sshd_farm, connect, tmp_path, cipher):
    farm = sshd_farm(1, sshd_config=f"RekeyLimit 1M\nCiphers {cipher}\n")
    data, transport = os.urandom(12 << 20), connect(farm)
    transport.put(data, str(tmp_path / "large"))
    assert (tmp_path / "large").read_bytes() == data
    assert transport.get(str(tmp_path / "large")) == data
    assert farm.nodes[0].connections == 1


def test_a_connection_lost_while_a_file_is_sent_leaves_the_old_file(sshd_farm, connect, tmp_path):
    farm = sshd_farm(1)
    path = tmp_path / "f"
    path.write_text("old")
    transport = connect(farm)
    transport.run(("true",))
    data = os.urandom(1_000_000) * 300

    def drop_once_it_arrives():
        # Not after a time, in which the file may not have been begun: clusterctl would connect again for it.
        wait_until(lambda: any(part.stat().st_size for part in tmp_path.glob("f.*")), "nothing arrives")
        farm.nodes[0].drop_connections()

    dropper = threading.Thread(target=drop_once_it_arrives)
    dropper.start()
    assert failure(transport.put, data, str(path)).kind is FailureKind.LOST
    dropper.join()
    # The node's side of it ends by itself, on a busy machine later.
    wait_until(lambda: list(tmp_path.iterdir()) == [path], "a part of the file is left", 30)
    assert path.read_text() == "old"


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


@pytest.mark.parametrize("keep_bytes", [None, 1000])
def test_a_login_shell_that_only_writes_errors_is_ended(sshd_farm, connect, system_user, keep_bytes):
    account = system_user()
    farm = sshd_farm(1, user=account.name, sshd_config="ForceCommand exec yes 4711.8 >&2")
    found = failure(connect(farm).run, ("true",), timeout_s=120, keep_bytes=keep_bytes)
    assert found.kind is FailureKind.PROTOCOL
    assert "wrote more than 1 MiB before the command started: true" in found.message
    wait_until_gone("4711.8", 60)


def test_a_login_shell_that_runs_nothing(sshd_farm, connect, system_user):
    account = system_user(shell="/usr/sbin/nologin")
    found = failure(connect(sshd_farm(1, user=account.name)).run, ("true",))
    assert found.kind is FailureKind.PROTOCOL and "not available" in found.message


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
