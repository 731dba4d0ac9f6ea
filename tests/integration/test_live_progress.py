"""What a person at a terminal sees while nodes work: what is awaited, then the rows, and after Ctrl-C what to type."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal

import pytest
from sshd_farm import start_farm, wait_for_listeners
from terminal_session import TerminalSession


@pytest.fixture(scope="module")
def inventory(small_farm, tmp_path_factory):
    return small_farm.inventory(tmp_path_factory.mktemp("fleet"))


@contextlib.contextmanager
def hanging(node):
    """Let a node accept connections and answer none, until the block ends or the function that it gets is called.

    Before the command starts, or the node may answer it first.
    """

    def let_go():
        os.kill(node.process.pid, signal.SIGCONT)

    os.kill(node.process.pid, signal.SIGSTOP)
    try:
        yield let_go
    finally:
        let_go()


@pytest.fixture
def session(small_farm, clusterctl, tmp_path):
    def start(*words, **options):
        env = {**small_farm.env, "CLUSTERCTL_CONNECT_TIMEOUT_S": "600", "CLUSTERCTL_RUNS": "runs"}
        env |= options.pop("env", {})
        return TerminalSession((str(clusterctl), *words), cwd=tmp_path, env=env, **options)

    return start


LIVE = r"^Gathering facts: {}/4 nodes, [0-9]+ s, waiting for {}$"


def test_check_shows_who_is_awaited_then_the_rows(small_farm, session, inventory):
    with (
        hanging(small_farm.node("node03")) as let_go,
        session("check", "--only", "acs,memlock", str(inventory)) as at,
    ):
        at.until(LIVE.format(3, "node03"))
        # What was drawn first, however late this test reads it.
        first = re.search(rb": \d/4 nodes, (\d+) s", at.raw)
        assert first is not None and int(first[1]) < 5
        assert "\x1b[1mGathering facts\x1b[0m" in at.raw.decode()
        let_go()
        at.until(r"^not measured \(not applicable\): acs")
        at.ended()
        assert "Gathering facts" not in at.screen
        assert at.screen.startswith("Gathered facts of 4 nodes in ")


def test_the_hint_of_ctrl_c_checks_the_other_nodes(small_farm, session, inventory):
    with hanging(small_farm.node("node03")):
        with session("check", "--only", "acs", str(inventory), columns=200) as at:
            at.until(LIVE.format(3, "node03"))
            at.type("\x03")
            assert at.ended() == 130
            assert "Interrupted while gathering facts: 3 of 4 nodes done, waiting for node03" in at.screen
            assert "No node was changed." in at.screen
            hint = at.until(r"^To leave out the nodes that did not answer: clusterctl (.*)$")
        with session(*shlex.split(hint[1])) as at:
            assert at.ended() == 0
            assert "Checked 3 nodes" in at.screen


def test_a_terminal_that_shrinks_and_one_that_is_dumb(small_farm, session, inventory):
    with hanging(small_farm.node("node03")), session("check", "--only", "acs", str(inventory)) as at:
        at.until(LIVE.format(3, "node03"))
        at.resize(30, 10)
        at.until(r"^Gathering facts: 3/4 nod\S*\.\.\.$")
        at.type("\x03")
        assert at.ended() == 130
    with session("check", "--only", "acs", str(inventory), env={"TERM": "dumb"}) as at:
        assert at.ended() == 0
        assert b"\x1b" not in at.raw
        assert at.screen.startswith("Gathered facts of 4 nodes in ")


def test_a_terminal_that_goes_away_does_not_end_the_work(small_farm, session, inventory, tmp_path):
    with (
        hanging(small_farm.node("node03")) as let_go,
        session("check", "--only", "acs", str(inventory)) as at,
    ):
        at.until(LIVE.format(3, "node03"))
        at.close_terminal()
        let_go()
        assert at.ended() == 3  # the table could not be written
    (report,) = tmp_path.glob("runs/*/report.json")
    assert [node["reachable"] for node in json.loads(report.read_text())["nodes"]] == [True] * 4


@pytest.fixture
def slow_farm(tmp_path):
    """Two nodes with private directories; on the second one ssh-keygen waits for the file ``gate``."""
    farm = start_farm(2, private=("/etc/clusterctl", "/etc/sysconfig", "/var/lib/clusterctl"))
    try:
        program = tmp_path / "slow" / "ssh-keygen"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\nwhile [ ! -e {tmp_path}/gate ]; do sleep 0.1; done\nexec /usr/bin/ssh-keygen "$@"\n'
        )
        program.chmod(0o755)
        node = farm.node("node02")
        node.stop()
        node.command += ("-o", f"SetEnv SHLVL=1 PATH={program.parent}:/usr/sbin:/usr/bin:/sbin:/bin")
        node.start()
        wait_for_listeners([node])
        yield farm
    finally:
        farm.stop()


def test_bootstrap_shows_what_runs_where_and_ctrl_c_what_is_left(slow_farm, clusterctl, tmp_path):
    wanted = "{ssh_mesh: {require: true}, cluster_file: {content: 'A=1'}}"
    inventory = str(slow_farm.inventory(tmp_path, requirements=wanted))
    words = (str(clusterctl), "bootstrap", "--yes", "--only", "ssh-mesh,cluster-file", inventory)
    with TerminalSession(words, cwd=tmp_path, env=slow_farm.env, columns=150, lines=60) as at:
        at.until(r"^Applying changes: 3/4 changes, \d+ s\n  node02 +\d+ s  ssh-mesh: Make a key")
        at.type("\x03")
        assert at.ended() == 130
        at.until(
            r"^Interrupted while applying changes: 3 of 4 changes done\n  node02 +\d+ s  ssh-mesh: Make a key"
        )
        assert "Each node finishes its current step and starts no other." in at.screen
        at.until(r"^To continue:\s+clusterctl bootstrap --resume \S+")
        at.until(r"^To undo:\s+clusterctl undo")
    (tmp_path / "gate").touch()


def test_no_live_line_stays_when_messages_and_a_failure_follow(small_farm, session, inventory):
    with (
        hanging(small_farm.node("node03")),
        hanging(small_farm.node("node04")) as let_go,
        session(
            "-v", "check", "--only", "memlock", str(inventory), env={"CLUSTERCTL_CONNECT_TIMEOUT_S": "6"}
        ) as at,
    ):
        at.until(r"^Gathering facts: \d/4 nodes, [1-9]")
        let_go()
        at.until("^node04 .* logged in")
        assert at.ended() == 1
        assert "node03: timeout" in at.screen and "Gathered facts of 3 of 4 nodes" in at.screen
        assert "Gathering facts: " not in at.screen
