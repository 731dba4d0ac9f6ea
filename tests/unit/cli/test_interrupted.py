"""Ctrl-C in the middle of changes: what then goes on, and how to go on or back, is said before the command ends."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from types import SimpleNamespace

import pytest

from clusterctl.apply import bootstrap as engine_of
from clusterctl.apply.undo import Undo, UndoOutcome
from clusterctl.cli import main, session
from clusterctl.cli.bench.run import terminable
from clusterctl.cli.bootstrap import command as bootstrap
from clusterctl.cli.bootstrap.shown import Shown
from clusterctl.cli.terminal import interrupt
from clusterctl.rundir import RunDir
from clusterctl.transport.base import HostMap


def interrupted(*_arguments, **_named):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("source", "place"), [("my fleet.yaml", "'my fleet.yaml'"), (None, "--local")])
def test_a_bootstrap_says_how_to_go_on_and_how_to_go_back(tmp_path, monkeypatch, capsys, source, place):
    monkeypatch.setattr(engine_of, "apply", interrupted)
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = SimpleNamespace(inventory=SimpleNamespace(source=source))
    with pytest.raises(KeyboardInterrupt):
        bootstrap._applied(None, prepared, run, Shown(None, None, on_stdout=True, on_screen=False))
    said = capsys.readouterr().err
    assert f"clusterctl bootstrap --resume {run.path}" in said
    assert f"clusterctl undo {place} --run {run.id}\n" in said


def test_a_bootstrap_that_has_contacted_no_node_says_that_none_was_changed(tmp_path, monkeypatch, capsys):
    (tmp_path / "inventory.yaml").write_text("version: 1\nnodes: [{name: a}]\n")
    monkeypatch.setattr(session, "open_session", interrupted)
    assert main.main(["bootstrap", "--yes", str(tmp_path / "inventory.yaml")]) == 130
    assert capsys.readouterr().err == "No node was changed.\n"


def test_an_undo_says_that_it_can_be_repeated(tmp_path, monkeypatch, capsys):
    (tmp_path / "inventory.yaml").write_text("version: 1\nnodes: [{name: a}]\n")
    monkeypatch.setattr(Undo, "list", lambda *_: HostMap({"a": UndoOutcome("r", ())}))
    monkeypatch.setattr(Undo, "execute", interrupted)
    assert main.main(["undo", "--yes", str(tmp_path / "inventory.yaml")]) == 130
    assert "To continue: clusterctl undo --yes " in capsys.readouterr().err


@pytest.fixture
def hangup():
    """What a hangup does to the tests themselves, however they were started, comes back behind each."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_is_gone_ends_the_ranks_and_does_not_break_that_off(hangup):
    with terminable():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)  # the kernel's, after the shell's
    assert callable(signal.getsignal(signal.SIGHUP))


def test_what_nohup_runs_goes_on_without_its_terminal(hangup):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with terminable():
        signal.raise_signal(signal.SIGHUP)


ASKING = """
import sys, threading
from clusterctl.cli import console
from clusterctl.inventory.model import Node
from clusterctl.transport.connect import Connector
from clusterctl.transport.fanout import fan_out
here = Node(name="here", address="localhost", connection="local")
try:
    ended = threading.Event()
    ask = lambda node, transport: console.ask_unseen("sudo password for ops on here: ", withdrawn=ended.is_set)
    fan_out([here], Connector(), ask, on_cancel=ended.set)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_a_terminal_shows_what_is_typed_again_after_ctrl_c_at_a_password():
    ours, theirs = pty.openpty()

    def shows():
        return bool(termios.tcgetattr(ours)[3] & termios.ECHO)

    def with_a_terminal_of_its_own():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    try:
        process = subprocess.Popen(
            [sys.executable, "-c", ASKING], stdin=theirs, stdout=theirs, stderr=theirs,
            preexec_fn=with_a_terminal_of_its_own,  # noqa: PLW1509 - a session begins in the child
        )  # fmt: skip
        said = b""
        while b"sudo password for ops on here: " not in said:
            said += os.read(ours, 1000)
        while shows():
            os.sched_yield()
        os.write(ours, b"half of it\x03")
        assert process.wait(60) == 130
        assert shows()
    finally:
        os.close(ours)
        os.close(theirs)


def test_ctrl_c_at_a_question_says_that_nothing_was_changed(tmp_path, monkeypatch, capsys):
    (tmp_path / "inventory.yaml").write_text("version: 1\nnodes: [{name: a}]\n")
    monkeypatch.setattr(Undo, "list", lambda *_: HostMap({"a": UndoOutcome("r", ())}))
    monkeypatch.setattr("clusterctl.cli.console.confirm", interrupted)
    assert main.main(["undo", str(tmp_path / "inventory.yaml")]) == 130
    assert capsys.readouterr().err.endswith("\nInterrupted: nothing was changed.\n")


def test_the_limit_that_leaves_out_a_node_is_no_word_of_a_program():
    interrupt.begin(("launch", "inventory.yaml", "--", "sh", "-c", "echo $RANK"))
    assert interrupt.without(["gpu02"]) == (
        "clusterctl launch inventory.yaml --limit '!gpu02' -- sh -c 'echo $RANK'"
    )
    interrupt.begin(("bench", "all_reduce"))
    assert interrupt.without(["gpu02", "gpu03"]) == "clusterctl bench all_reduce --limit '!gpu[02-03]'"
