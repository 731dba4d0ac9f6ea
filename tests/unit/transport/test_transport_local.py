"""This machine as a node: real child processes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from listening import wait_until

from clusterctl.errors import CommandError
from clusterctl.inventory.model import Become, Node
from clusterctl.transport.base import FailureKind, TransportError
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out
from clusterctl.transport.local import LocalTransport

NODE = Node(name="here", address="localhost", connection="local")


@pytest.fixture
def here():
    transport = Connector()(NODE)
    assert isinstance(transport, LocalTransport) and transport.node == "here"
    yield transport
    transport.close()


def open_pipes():
    """Return the pipes of this process, each by its number: threads of earlier tests may still close theirs."""
    links = (os.path.realpath(link) for link in Path("/proc/self/fd").iterdir())
    return {link for link in links if "pipe:[" in link}


def test_run(here):
    done = here.run(("sh", "-c", "cat; echo $V; echo err >&2; exit 3"), stdin=b"in\0\n", env={"V": "a b$"})
    assert (done.returncode, done.stdout, done.stderr) == (3, b"in\0\na b$\n", b"err\n")
    assert here.run(("sh", "-c", "kill -9 $$")).returncode == 137


@pytest.mark.parametrize("as_root", [False, True])
def test_the_sudo_password_is_not_in_a_commands_environment(monkeypatch, as_root):
    monkeypatch.setenv("CLUSTERCTL_SUDO_PASSWORD", "hunter2")
    monkeypatch.setenv("CLUSTERCTL_KEPT", "kept")
    transport = Connector()(NODE.model_copy(update={"become": Become.NONE}))
    if as_root and os.geteuid() != 0:
        pytest.skip("only root runs as root without sudo")
    text = transport.run(("env",), as_root=as_root).text
    assert "CLUSTERCTL_KEPT=kept" in text and "hunter2" not in text and "SUDO_PASSWORD" not in text
    assert os.environ["CLUSTERCTL_SUDO_PASSWORD"] == "hunter2", "our own environment is left alone"


def test_a_missing_program_is_127_and_no_exception(here):
    done = here.run(("no-such-program-here", "x"))
    assert done.returncode == 127 and b"no-such-program-here" in done.stderr
    assert here.run(("/etc/passwd",)).returncode == 126


def test_large_input_and_output_pass_each_other(here):
    data = os.urandom(8_000_000)
    before = open_pipes()
    assert here.run(("cat",), stdin=data).stdout == data
    assert here.run(("true",), stdin=data).returncode == 0, "a command need not read its input"
    assert open_pipes() <= before


def test_lines_stream(here, tmp_path):
    """The command goes on when its first line was heard, and not before."""
    heard, seen = tmp_path / "heard", []

    def on_line(line):
        seen.append(line)
        heard.touch()

    script = 'echo a; while [ ! -e "$1" ]; do sleep 0.02; done; printf b'
    here.run(("sh", "-c", script, "sh", str(heard)), on_line=on_line, timeout_s=60)
    assert seen == ["a", "b"]


def test_the_deadline_ends_the_whole_group(here, tmp_path):
    pids = tmp_path / "pids"
    began = time.monotonic()
    with pytest.raises(TransportError) as raised:
        # Time enough for a shell of a busy machine to come to its wait.
        here.run(("sh", "-c", f"sleep 300 & echo $! $$ > {pids}; trap '' TERM; wait; sleep 300"), timeout_s=3)
    assert raised.value.failure.kind is FailureKind.DEADLINE and time.monotonic() - began < 60
    # The shell is our own child and was waited for; what it started ends a moment after the signal to its group.
    wait_until(lambda: not any(map(runs, pids.read_text().split())), "a process of the group lives on", 30)


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_background_child_does_not_hold_the_result_back(here, tmp_path):
    began = time.monotonic()
    done = here.run(("sh", "-c", f"sleep 300 & echo $! > {tmp_path}/pid; echo done"))
    assert done.stdout == b"done\n" and time.monotonic() - began < 60
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_put_and_get(here, tmp_path):
    path = tmp_path / "a file'$x"
    here.put(b"\0data", str(path), mode=0o640)
    assert path.read_bytes() == b"\0data" and path.stat().st_mode & 0o777 == 0o640
    assert here.get(str(path)) == b"\0data"
    here.put(b"new", str(path))
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path], "no temporary file is left"
    with pytest.raises(CommandError, match="cannot be read"):
        here.get(str(tmp_path / "absent"))
    with pytest.raises(CommandError, match="directory"):
        here.put(b"x", str(tmp_path))
    with pytest.raises(CommandError, match="cannot be written"):
        here.put(b"x", str(tmp_path / "absent" / "x"))


def test_a_short_transfer_leaves_the_old_file(here, tmp_path):
    from clusterctl.transport import files

    path = tmp_path / "f"
    path.write_text("old")
    done = here.run(files.put_argv(str(path), 0o644, 100), stdin=b"only this")
    assert done.returncode == 1 and "only 9 of 100 bytes" in done.error_text
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_nothing_begins_after_close(here, tmp_path):
    """An interrupt cuts off what runs; between two commands it must keep the next from starting."""
    here.close()
    with pytest.raises(TransportError) as raised:
        here.run(("touch", str(tmp_path / "late")))
    assert raised.value.failure.kind is FailureKind.LOST and not (tmp_path / "late").exists()


def test_close_from_another_thread_ends_the_command(here):
    threading.Timer(0.3, here.close).start()
    began = time.monotonic()
    with pytest.raises(TransportError) as raised:
        here.run(("sleep", "300"))
    assert raised.value.failure.kind is FailureKind.LOST and time.monotonic() - began < 60


def test_output_is_bounded():
    transport = LocalTransport(NODE, max_output_bytes=100_000)
    with pytest.raises(TransportError) as raised:
        transport.run(("sh", "-c", "yes"), timeout_s=20)
    assert raised.value.failure.kind is FailureKind.PROTOCOL


def test_fan_out_over_local_nodes():
    nodes = [NODE.model_copy(update={"name": f"n{i}"}) for i in range(8)]
    outcome = fan_out(nodes, Connector(), lambda node, t: t.run(("echo", node.name)).text.strip(), fanout=4)
    assert outcome.values_by_node == {f"n{i}": f"n{i}" for i in range(8)}
