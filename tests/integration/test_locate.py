"""Planted faults among real nodes are named by ``clusterctl locate``, and a healthy fleet is not."""

from __future__ import annotations

import importlib
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
import lying_rank
import pytest
import slowed_cpu
import soak
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


def python_with(folder: Path, *packages: str) -> str:
    """Return a Python that has the standard library and these packages of this one, and no other."""
    (folder / "packages").mkdir()
    for name in packages:
        (folder / "packages" / name).symlink_to(Path(importlib.import_module(name).__path__[0]))
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/packages exec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def locate(run_clusterctl, fleet, tmp_path):
    def run(
        *options: str,
        rails: str = "=eth0,eth1",
        library: str = "gloo",
        timeout_s: int = TIMEOUT_S,
        python: str = sys.executable,
    ):
        more = {}
        if "CCORE_LIBRARY" in os.environ:  # the library under test, where it is not the installed one
            more["env"] = json.dumps({"CCORE_LIBRARY": os.environ["CCORE_LIBRARY"]})
        inventory = fleet.inventory(tmp_path, socket_ifname=rails, slots=1, python=python, **more)
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


def test_the_rail_that_lost_a_quarter_is_named_and_left_out_of_the_hostfile(locate, fleet, tmp_path):
    # On nodes without torch, because collective_core needs none.
    python = python_with(tmp_path, "collective_core")
    # Slow only when it sends, and with an MTU that the other nodes do not have.
    bridged_nodes.reshape(fleet.nodes[2], 1, 0.75 * RATE_MBIT, incoming_mbit=RATE_MBIT)
    try:
        with bridged_nodes.mtu(fleet.nodes[2], 1, 1400):
            done = locate(
                "--json", "--hostfile-without", str(tmp_path / "hosts"), library="ccore", python=python
            )
    finally:
        bridged_nodes.reshape(fleet.nodes[2], 1, RATE_MBIT)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "named" and named(document) == [(["node03"], "eth1")]
    (slow,) = (one for one in document["suspects"] if one["status"] == "named")
    assert 0.6 < slow["ratio"] < 0.9 and slow["chance"] < 0.001
    assert {one["test"]: one["status"] for one in slow["tests"]} == {"sends": "slow", "receives": "well"}
    assert {"node": "node03", "fact": "MTU of eth1", "value": "1400", "others": "1500"} in document[
        "differences"
    ]
    hosts = [
        line.split()[0] for line in (tmp_path / "hosts").read_text().splitlines() if not line.startswith("#")
    ]
    assert hosts == ["node01", "node02", "node04"]


def test_a_healthy_fleet_gets_no_name(locate):
    done = locate("--json", rails="eth0", library="ccore")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    # On shared cores a suspect may stay undecided.
    assert document["status"] == "none" and named(document) == []
    assert [one["node"] for one in document["rates"]] == ["node01", "node02", "node03", "node04"]


@pytest.mark.soak
@pytest.mark.parametrize("library", soak.spread(["ccore", "gloo"], 1))
def test_a_slow_pair_is_a_link_and_names_no_node(locate, fleet, library):
    with bridged_nodes.slow_pair(fleet.nodes[0], fleet.nodes[3], 0, 0.6 * RATE_MBIT, RATE_MBIT):
        done = locate("--json", rails="eth0", library=library)
    assert named(json.loads(done.stdout)) == [(["node01", "node04"], "eth0")], done.stdout


def test_a_rank_that_stands_still_is_named_at_the_deadline(locate, fleet):
    with for_rank_of(fleet.nodes[1], lambda pid: os.kill(pid, signal.SIGSTOP)):
        done = locate("--json", rails="eth0", timeout_s=40)
    assert done.returncode == 10, done.stdout + done.stderr
    (failure,) = json.loads(done.stdout)["failures"]
    assert (failure["kind"], failure["node"]) == ("deadline", "node02"), failure


def test_a_rank_that_is_killed_is_named(locate, fleet):
    with for_rank_of(fleet.nodes[1], lambda pid: os.kill(pid, signal.SIGKILL)):
        done = locate("--json", rails="eth0", library="ccore")
    assert done.returncode == 10, done.stdout + done.stderr
    (failure,) = json.loads(done.stdout)["failures"]
    assert (failure["kind"], failure["rank"], failure["node"]) == ("rank-died", 1, "node02"), failure


@pytest.mark.soak
@pytest.mark.parametrize("fault", soak.spread(["rail", "pair"], 1))
def test_bench_is_doubtful_with_a_slow_rail_or_pair(run_clusterctl, fleet, tmp_path, fault):
    more = (
        {"env": json.dumps({"CCORE_LIBRARY": os.environ["CCORE_LIBRARY"]})}
        if "CCORE_LIBRARY" in os.environ
        else {}
    )
    inventory = fleet.inventory(tmp_path, socket_ifname="=eth0,eth1", slots=1, python=sys.executable, **more)
    words = ("bench", str(inventory), "--library", "ccore", "-b", "256K", "-e", "1M", "-n", "2", "--json")
    if fault == "rail":
        bridged_nodes.reshape(fleet.nodes[2], 1, 0.75 * RATE_MBIT)
        try:
            done = run_clusterctl(*words, env=fleet.env)
        finally:
            bridged_nodes.reshape(fleet.nodes[2], 1, RATE_MBIT)
        slow = (["node03"], "eth1")
    else:
        with bridged_nodes.slow_pair(fleet.nodes[0], fleet.nodes[3], 0, 0.6 * RATE_MBIT, RATE_MBIT):
            done = run_clusterctl(*words, env=fleet.env)
        slow = (["node01", "node04"], "eth0")
    assert done.returncode == 1, done.stdout + done.stderr
    document = json.loads(done.stdout)
    found = [(one["nodes"], one["interface"]) for one in document["proof"]["slow"]]
    assert (document["status"], found) == ("doubtful", [slow])


@pytest.mark.soak
def test_two_nodes_that_hang_with_each_other_are_a_link(locate, fleet):
    with bridged_nodes.dead_pair(fleet.nodes[1], fleet.nodes[3]):
        done = locate("--json", rails="eth0", timeout_s=30)
    assert done.returncode == 10, done.stdout + done.stderr
    apart = json.loads(done.stdout)["apart"]
    assert (apart["nodes"], apart["links"], apart["open"]) == ([], [["node02", "node04"]], []), done.stdout


# Joins the cgroup once torch is imported, which would take a minute with the quota.
JOINED = """\
import os, runpy, sys, torch
with open(sys.argv.pop(1), "w") as group:
    group.write(str(os.getpid()))
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def held_back(tier_unavailable, tmp_path):
    """Make a Python that starts each rank of node03 in a cgroup with a CPU quota, which no other rank has."""
    if reason := slowed_cpu.missing():
        tier_unavailable(reason)
    with slowed_cpu.group("rank", 0.05) as group:
        (tmp_path / "joined.py").write_text(JOINED)
        python = tmp_path / "python"
        python.write_text(f"""\
#!/bin/sh
case "$(hostname) $* " in
  *" --pairs-only "*) ;; # what bench measures after its sweep, which takes longest with a quota
  "node03 "*" --backend "*) set -- {tmp_path}/joined.py /sys/fs/cgroup/{group.name}/cgroup.procs "$@" ;;
esac
exec {sys.executable} "$@"
""")
        python.chmod(0o755)
        yield python


@pytest.mark.soak
def test_a_rank_with_a_cpu_quota_is_named_with_its_node(run_clusterctl, fleet, tmp_path, held_back):
    inventory = fleet.inventory(tmp_path, socket_ifname="eth0", slots=1, python=str(held_back))
    words = ("locate", str(inventory), "--library", "gloo", "--timeout", str(TIMEOUT_S), "--json")
    done = run_clusterctl(*words, env=fleet.env)
    assert done.returncode == 1, done.stdout + done.stderr
    document = json.loads(done.stdout)
    (held,) = document["held_back"]
    assert (document["status"], held["node"], held["device"], held["named"]) == (
        "named",
        "node03",
        "CPU",
        True,
    )
    # What the kernel counted, whatever else runs on this machine.
    assert held["ranks"] == [2] and held["cpus"] == 0.05 and 0 < held["stopped"] <= held["periods"]


def test_bench_is_doubtful_with_a_rank_that_has_a_cpu_quota(run_clusterctl, fleet, tmp_path, held_back):
    inventory = fleet.inventory(tmp_path, socket_ifname="eth0", slots=1, python=str(held_back))
    words = ("bench", str(inventory), "--library", "gloo", "-b", "256K", "-e", "1M", "-n", "2", "--json")
    done = run_clusterctl(*words, env=fleet.env)
    assert done.returncode == 1, done.stdout + done.stderr
    document = json.loads(done.stdout)
    (event,) = (
        one for one in document["variants"][0]["proof"]["health"]["events"] if one["name"] == "cpu_quota"
    )
    assert (document["status"], event["node"], event["place"]) == ("doubtful", "node03", "CPU")
    assert event["what"].startswith("held back: a quota of 0.05 CPUs stopped rank 2 in ")


@pytest.mark.parametrize(
    ("liar", "kind", "at_fault"),
    # Also as rank 0, and about all of its partners; benchmarks/locate_liars.py has all kinds.
    [
        ("node04", "one-low", None),
        ("node01", "one-low", None),
        ("node04", "all-low", "node04"),
        ("node01", "all-high", "node01"),
    ],
)
def test_a_rank_that_lies_about_its_pairs_names_no_other_node(locate, tmp_path, liar, kind, at_fault):
    python = lying_rank.python_of(tmp_path, kind, 1, [liar])
    done = locate("--json", rails="eth0", library="ccore", python=python)
    document = json.loads(done.stdout)
    assert lying_rank.others_named(document, [liar]) == [] and document["failures"] == [], done.stdout
    ends = {tuple(one["nodes"]): one["at_fault"] for one in document["ends_differ"]}
    if at_fault is None:
        assert (done.returncode, document["status"]) == (0, "none"), done.stdout
        assert ends == {tuple(sorted({liar, "node02"})): None}
    else:
        assert (done.returncode, document["status"]) == (1, "named"), done.stdout
        assert len(ends) == 3 and set(ends.values()) == {at_fault}


def test_a_rank_that_leaves_and_blames_another_is_named_itself(locate, tmp_path):
    python = lying_rank.python_of(tmp_path, "crashes", 1, ["node04"])
    done = locate("--json", rails="eth0", library="ccore", python=python)
    document = json.loads(done.stdout)
    assert done.returncode == 10 and lying_rank.others_named(document, ["node04"]) == [], done.stdout
    assert [one["node"] for one in document["failures"]] == ["node04"], done.stdout


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
        # Python has read the program and its library; a shell around it has not.
        if b"locate" in words and ("libtorch" in maps or "libcollective_core" in maps):
            pids.append(pid)
    return pids


def test_a_node_without_torch_is_named_before_anything_is_measured(run_clusterctl, fleet, tmp_path):
    python = python_with(tmp_path)
    path = fleet.inventory(tmp_path, socket_ifname="eth0", slots=1, python=sys.executable)
    path.write_text(path.read_text().replace("name: node03\n", f"name: node03\n    python: {python}\n"))
    done = run_clusterctl("locate", str(path), "--library", "gloo", "--json", env=fleet.env)
    assert done.returncode == 10, done.stdout + done.stderr
    (failure,) = json.loads(done.stdout)["failures"]
    assert (failure["kind"], failure["node"]) == ("missing-program", "node03")
    assert f"torch is not installed for {python}" in failure["message"]
    assert "or measure the host network without torch: --library ccore" in failure["hint"]


def test_two_nodes_are_a_link_and_name_no_node(locate, fleet):
    bridged_nodes.reshape(fleet.nodes[1], 0, 0.75 * RATE_MBIT)
    try:
        done = locate("--json", "--limit", "node[01-02]", rails="eth0", library="ccore")
    finally:
        bridged_nodes.reshape(fleet.nodes[1], 0, RATE_MBIT)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert (document["status"], document["suspects"], len(document["pairs"])) == ("none", [], 1)


def test_one_node_is_measured_alone_and_the_report_says_what_pairs_take(run_clusterctl):
    done = run_clusterctl("locate", "--library", "gloo", "--launcher", "local")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("no pairs were measured: that takes two nodes")
    assert "\nlocate: 1 node x 1 rail, 0 rounds, " in done.stdout
    assert "note: locate compares nodes: it needs three nodes to name the slow one" in done.stderr


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
