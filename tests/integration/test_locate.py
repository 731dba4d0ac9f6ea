"""Planted faults among real nodes are named by ``clusterctl locate``, and a healthy fleet is not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bridged_nodes
import pytest
from terminal_session import TerminalSession

# Far below what two cores carry, so that it is the network that is slow, whatever else runs here.
RATE_MBIT = 200
TIMEOUT_S = 240


@pytest.fixture(scope="module")
def fleet(tier_unavailable):
    if reason := bridged_nodes.missing():
        tier_unavailable(reason)
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")
    with bridged_nodes.bridged_nodes([(RATE_MBIT, RATE_MBIT)] * 4) as farm:
        yield farm


@pytest.fixture
def locate(run_clusterctl, fleet, tmp_path):
    def run(*options: str, rails: str = "=eth0,eth1", library: str = "gloo", timeout_s: int = TIMEOUT_S):
        more = {}
        if "CCORE_LIBRARY" in os.environ:  # the library under test, where it is not the installed one
            more["env"] = json.dumps({"CCORE_LIBRARY": os.environ["CCORE_LIBRARY"]})
        inventory = fleet.inventory(tmp_path, socket_ifname=rails, slots=1, python=sys.executable, **more)
        return run_clusterctl(
            "locate",
            str(inventory),
            "--library",
            library,
            "--timeout",
            str(timeout_s),
            *options,
            env=fleet.env,
        )

    return run


def named(document):
    return [(one["nodes"], one["interface"]) for one in document["suspects"] if one["status"] == "named"]


@pytest.mark.parametrize("library", ["ccore"])
def test_the_rail_that_lost_a_quarter_is_named_and_left_out_of_the_hostfile(locate, fleet, tmp_path, library):
    bridged_nodes.reshape(fleet.nodes[2], 1, 0.75 * RATE_MBIT)
    try:
        done = locate("--json", "--hostfile-without", str(tmp_path / "hosts"), library=library)
    finally:
        bridged_nodes.reshape(fleet.nodes[2], 1, RATE_MBIT)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "named" and named(document) == [(["node03"], "eth1")]
    (slow,) = (one for one in document["suspects"] if one["status"] == "named")
    assert 0.6 < slow["ratio"] < 0.9 and slow["chance"] < 0.001
    hosts = [
        line.split()[0] for line in (tmp_path / "hosts").read_text().splitlines() if not line.startswith("#")
    ]
    assert hosts == ["node01", "node02", "node04"]


def test_a_healthy_fleet_gets_no_name(locate):
    done = locate("--json", rails="eth0")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    # On shared cores a suspect may stay undecided.
    assert document["status"] == "none" and named(document) == []
    assert [one["node"] for one in document["rates"]] == ["node01", "node02", "node03", "node04"]


@pytest.mark.soak
def test_a_slow_pair_is_a_link_and_names_no_node(locate, fleet):
    with bridged_nodes.slow_pair(fleet.nodes[0], fleet.nodes[3], 0, 0.6 * RATE_MBIT, RATE_MBIT):
        done = locate("--json", rails="eth0")
    assert named(json.loads(done.stdout)) == [(["node01", "node04"], None)], done.stdout


def test_a_rank_that_stands_still_is_named_at_the_deadline(locate, fleet):
    with for_rank_of(fleet.nodes[1], lambda pid: os.kill(pid, signal.SIGSTOP)):
        done = locate("--json", rails="eth0", timeout_s=40)
    assert done.returncode == 10, done.stdout + done.stderr
    (failure,) = json.loads(done.stdout)["failures"]
    assert (failure["kind"], failure["node"]) == ("deadline", "node02"), failure


@contextmanager
def for_rank_of(node, work) -> Iterator[None]:
    """Do something to the rank of a node as soon as it runs."""
    ended = threading.Event()

    def wait() -> None:
        while not ended.is_set():
            for pid in ranks_in(node.command[3]):
                work(pid)
                return
            time.sleep(0.1)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def ranks_in(space: str) -> list[int]:
    """Return the processes of the program behind ``locate`` in a network namespace, once they compute."""
    found = subprocess.run(
        ("ip", "netns", "pids", space), capture_output=True, text=True, timeout=30, check=True
    )
    pids = []
    for pid in map(int, found.stdout.split()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            continue
        # Python has read the program and torch; a shell around it has not.
        if b"locate" in words and "libtorch" in maps:
            pids.append(pid)
    return pids


def test_one_node_is_measured_alone_and_the_report_says_what_pairs_take(run_clusterctl):
    done = run_clusterctl("locate", "--library", "gloo", "--launcher", "local")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("locate: 1 node x 1 rail, 0 rounds, ")
    assert "no pairs were measured: that takes two nodes" in done.stdout


def test_an_interrupt_says_what_was_left_and_what_to_type(clusterctl, tmp_path):
    words = (str(clusterctl), "locate", "--library", "gloo", "--launcher", "local")
    with TerminalSession(words, cwd=tmp_path) as at:
        at.until(r"pairs of 1 node, 1 rank, local$")
        at.type("\x03")
        assert at.ended() == 130
        first, *lines = at.screen.splitlines()[-3:]
        assert first.startswith("Interrupted while locating what is slow after ")
        assert lines == [
            "All ranks were ended, and no result is stored.",
            "To measure again: clusterctl locate --library gloo --launcher local",
        ]
