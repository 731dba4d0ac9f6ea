"""A collective among four nodes of which one has a slow network: all ranks wait alike, and the node is named."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import bridged_nodes
import pytest

from clusterctl.benchmarks.collective import program_of

CASES = Path(__file__).parents[1] / "unit" / "benchmarks" / "cases"
# Far below what two cores carry, so that it is the network that is slow, whatever else runs here.
FAST_MBIT, SLOW_MBIT = 400, 200


@pytest.fixture(scope="module")
def fleet(tier_unavailable):
    if reason := bridged_nodes.missing():
        tier_unavailable(reason)
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")
    with bridged_nodes.bridged_nodes((FAST_MBIT, FAST_MBIT, SLOW_MBIT, FAST_MBIT)) as farm:
        yield farm


def foreign_program(folder):
    """A program that measures all ranks together and cannot do more, nor say whose it is; its table is recorded."""
    path = folder / program_of("all_reduce")
    table = CASES / "h200-x4-all_reduce_perf-mpirun-np4-g1.txt"
    path.write_text(
        f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0\nexec grep -v "^# nccl-tests\\|^NCCL" {table}\n'
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("library", "launches"), [("gloo", 2), ("ccore", 3)])
def test_the_node_with_the_slow_network_is_named(run_clusterctl, fleet, tmp_path, library, launches):
    """The torch program measures pairs itself; beside a program of others it is done by a launch of its own.

    Pairs of nodes are then measured again, and confirm it.
    """
    more = {} if library == "gloo" else {"all_reduce_perf": foreign_program(tmp_path)}
    sizes = ("-e", "64K") if library == "gloo" else ("-b", "1K", "-e", "1G", "-f", "4")  # of its table
    if "CCORE_LIBRARY" in os.environ:  # the library under test, where it is not the installed one
        more["env"] = json.dumps({"CCORE_LIBRARY": os.environ["CCORE_LIBRARY"]})
    inventory = fleet.inventory(tmp_path, socket_ifname="eth0", slots=1, python=sys.executable, **more)
    page = tmp_path / "page.html"
    done = run_clusterctl(
        "bench", "-i", str(inventory), "--library", library, "-np", "4", *sizes, "--timeout", "150",
        "--html", str(page), "--json", env=fleet.env,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    proof = document["proof"]
    assert document["status"] == "doubtful" and [one["nodes"] for one in proof["slow"]] == [["node03"]]
    assert "neighbours" in proof, done.stderr
    assert "Looking for a slow rank: pairs of nodes\n" in done.stderr
    assert "no rank is slow" not in done.stderr
    measured = {one["rank"]: one for one in proof["neighbours"]["ranks"]}
    assert [one["host"] for one in measured.values()] == ["node01", "node02", "node03", "node04"]
    assert set(measured[2]["gbps_with"]) == {"0", "1", "3"}
    (slow,) = document["variants"][0]["proof"]["stragglers"]["4"]
    assert (slow["rank"], slow["host"]) == (2, "node03")
    # All fast nodes have it as a neighbour, and are not blamed for it.
    assert min(measured[1]["gbps_with"], key=measured[1]["gbps_with"].get) == "2"
    text = page.read_text()
    assert "Deviation by node" in text and "The slowest is rank 2 on node03" in text
    (folder,) = (tmp_path / "runs").glob("*-bench-*")
    assert len(json.loads((folder / "launch.json").read_text())["launches"]) == launches


def test_the_preflight_sends_its_eight_bytes_and_no_more(run_clusterctl, fleet, tmp_path):
    inventory = fleet.inventory(tmp_path, socket_ifname="eth0", slots=1, python=sys.executable)
    done = run_clusterctl(
        "bench", "-i", str(inventory), "--preflight", "--library", "gloo", "-np", "4", "--json", env=fleet.env
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").glob("*-preflight-*")
    said = (folder / "logs/8-bytes/rank-0.log").read_text()
    assert "Out of bounds values : 0 OK" in said and "Neighbours" not in said


def test_repeats_probe_each_node_once(run_clusterctl, fleet, tmp_path):
    """The nodes do not change between the repeats of a run, so only launches are repeated."""
    calls, python = tmp_path / "calls", tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "$(hostname) ${{OMPI_COMM_WORLD_RANK-probe}}" >> {calls}\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    inventory = fleet.inventory(tmp_path, socket_ifname="eth0", slots=1, python=python)
    counted = []
    for repeats in ("1", "3"):
        calls.write_text("")
        done = run_clusterctl(
            "bench", "-i", str(inventory), "--library", "gloo", "--limit", "node[01-02]", "-np", "2", "-e", "64",
            "--repeats", repeats, "--timeout", "150", env=fleet.env,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        counted.append(Counter(calls.read_text().splitlines()))
    once, thrice = counted
    assert once["node01 0"] and once["node02 1"], once
    assert {name for name in once if name.endswith("probe")} == {"node01 probe", "node02 probe"}
    for name, count in once.items():
        assert thrice[name] == (count if name.endswith("probe") else 3 * count), (name, thrice)
