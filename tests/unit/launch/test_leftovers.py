"""Whose directories are removed: those of runs whose controller surely does not run any more, and no others."""

import os
import secrets
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from clusterctl.inventory.model import Node
from clusterctl.launch import leftovers
from clusterctl.launch.leftovers import dead, sweep, this_controller
from clusterctl.transport.local import LocalTransport

HERE = this_controller()
GONE = replace(HERE, pid=2**22 + 1, start=1)
# Their own in each process: the sweep kills every process of this machine that carries the token of a dead run.
TOKEN, OTHER, OLD = (secrets.token_hex(8) for _ in range(3))


@pytest.mark.parametrize(
    ("controller", "removed"),
    [
        (HERE, False),
        (GONE, True),
        (replace(HERE, start=HERE.start + 1), True),  # the number was given to another process
        (replace(HERE, boot="before"), True),
        (replace(GONE, host="elsewhere"), False),
        (replace(GONE, space="pid:[1]"), False),  # another container on this host
        (replace(GONE, boot="-", space="-"), False),
    ],
)
def test_only_a_controller_that_is_surely_gone_loses_its_directory(controller, removed):
    assert dead([f"{TOKEN}  {controller.lease}"], HERE) == ((TOKEN,) if removed else ())
    assert dead([f"{TOKEN} old {controller.lease}"], HERE) == (TOKEN,)


@pytest.mark.parametrize(
    "line",
    ["", "x", f"../{TOKEN}  {GONE.lease}", f"{TOKEN[:-1]};  {GONE.lease}", f"{TOKEN}  1 a"],
    ids=["empty", "a letter", "a path", "a command", "half a lease"],
)
def test_what_a_node_makes_up_is_no_token(line):
    assert dead([line], HERE) == ()


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A node's /tmp of our own, and how a run that was killed leaves a directory there."""
    monkeypatch.setattr(leftovers, "PREFIX", f"{tmp_path}/clusterctl-")
    monkeypatch.setattr(
        leftovers, "LIST", leftovers.LIST.replace("/tmp/clusterctl-", f"{tmp_path}/clusterctl-")
    )

    def make(token, controller):
        made = tmp_path / f"clusterctl-{token}"
        made.mkdir(mode=0o700)
        (made / "lease").write_text(controller.lease + "\n")
        return made

    return make


def swept():
    here = Node(name="here", address="localhost", connection="local")
    outcome = sweep([here], LocalTransport, 1)
    assert outcome.failures == {}
    return outcome.values_by_node["here"]


def test_directory_and_ranks_of_a_dead_run_go_and_a_living_runs_stay(directory):
    left, kept = directory(TOKEN, GONE), directory(OTHER, HERE)
    rank = subprocess.Popen(
        (
            sys.executable,
            "-c",
            "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)",
        ),
        stdout=subprocess.PIPE,
        env={**os.environ, "CLUSTERCTL_LAUNCH": TOKEN, "RANK": "0"},
    )
    other = subprocess.Popen(("sleep", "600"), env={**os.environ, "CLUSTERCTL_LAUNCH": OTHER, "RANK": "0"})
    assert rank.stdout is not None
    try:
        assert rank.stdout.readline() == b"\n"  # from now on it ignores the signal
        assert swept() == 1
        assert rank.wait(60) == -9
        assert (left.exists(), kept.exists(), other.poll()) == (False, True, None)
        assert swept() == 0
    finally:
        for process in (rank, other):
            process.kill()
            process.communicate()


def test_a_link_of_that_name_is_not_followed(directory, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "lease").write_text(GONE.lease + "\n")
    (tmp_path / f"clusterctl-{TOKEN}").symlink_to(tmp_path / "home")
    assert swept() == 0
    assert (tmp_path / "home" / "lease").exists()


def test_a_directory_without_a_lease_goes_when_it_is_old(directory, tmp_path):
    """As a version without leases left it, or a run that was killed between the two."""
    young, old = directory(TOKEN, HERE), directory(OLD, HERE)
    for made in (young, old):
        (made / "lease").unlink()
    week_ago = time.time() - 8 * 24 * 3600
    os.utime(old, (week_ago, week_ago))
    assert swept() == 1
    assert (young.exists(), old.exists()) == (True, False)
