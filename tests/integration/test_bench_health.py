"""A link that goes down during a benchmark: the node and the interface are named, and the figures are doubtful."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import bridged_nodes
import pytest

from clusterctl.benchmarks.collective import program_of

CASES = Path(__file__).parents[1] / "unit" / "benchmarks" / "cases"
# A line that no other test mistakes for a fault of its own nodes.
_LINE = "clusterctl test: PCIe Bus Error: severity=Corrected"
_FLAP = "ip link set eth1 down && ip link set eth1 up"


@pytest.fixture(scope="module")
def fleet(tier_unavailable):
    if reason := bridged_nodes.missing():
        tier_unavailable(reason)
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")
    with bridged_nodes.bridged_nodes(((400, 400), (400, 400))) as farm:
        yield farm


def program(folder, on_rank_1):
    """A program of others with a recorded table; before it ends, rank 1 does something on its node."""
    path = folder / program_of("all_reduce")
    table = CASES / "h200-x4-all_reduce_perf-mpirun-np2-g1.txt"
    path.write_text(
        f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] || {{ {on_rank_1}; exit; }}\n'
        f'exec grep -v "^# nccl-tests\\|^NCCL" {table}\n'
    )
    path.chmod(0o755)
    return path


def _inside(node, *words):
    subprocess.run((*node.command[:4], *words), check=True, timeout=60)


def _logins(node):
    return node.log_text().count("Accepted publickey")


@pytest.fixture
def bench(run_clusterctl, fleet, tmp_path):
    def run(on_rank_1, *options):
        inventory = fleet.inventory(
            tmp_path, socket_ifname="eth0", slots=1, all_reduce_perf=program(tmp_path, on_rank_1)
        )
        done = run_clusterctl(
            "bench", "-i", str(inventory), "--library", "ccore", "-np", "2", "-b", "1K", "-e", "1G", "-f", "4",
            "--timeout", "150", *options, env=fleet.env,
        )  # fmt: skip
        (newest,) = sorted((tmp_path / "runs").glob("*-bench-*"))[-1:]
        return done, json.loads((newest / "results.json").read_text())

    return run


def test_errors_of_before_the_run_are_not_blamed_on_it(bench, fleet):
    for node in fleet.nodes:
        _inside(node, "sh", "-c", _FLAP)
    before = _logins(fleet.nodes[1])
    done, document = bench("exit 0")
    assert done.returncode == 0, done.stderr
    assert document["status"] == "ok"
    assert document["variants"][0]["proof"]["health"] == {"doubtful": False, "events": [], "unread": []}
    # One before the ranks, which also reads the counters; two of the launching node; one that watches the node; one
    # after the ranks, which reads the counters again and cleans up.
    assert _logins(fleet.nodes[1]) - before == 5


def test_a_link_that_went_down_during_the_run_makes_it_doubtful(bench, tmp_path):
    page = tmp_path / "page.html"
    has_log = Path("/dev/kmsg").is_char_device()  # not in every container
    log = f"echo '{_LINE}' >/dev/kmsg" if has_log else ":"
    done, document = bench(f"{_FLAP}; {log}", "--html", str(page))
    assert done.returncode == 1, done.stderr
    assert document["status"] == "doubtful"
    events = document["variants"][0]["proof"]["health"]["events"]
    (event,) = (one for one in events if one["effect"] != "note")
    assert (event["node"], event["place"], event["name"]) == ("node02", "eth1", "carrier_changes")
    assert event["effect"] == "doubtful" and event["by"] >= 2
    assert "DOUBTFUL: the hardware reported faults during the run, on node02:" in done.stdout
    assert "node02 eth1: link went down or up" in done.stdout
    # The nodes have one kernel, whose log both show; a corrected error alone would not make the run doubtful.
    logged = [one["node"] for one in events if one["place"] == "kernel log" and _LINE in one["meaning"]]
    assert logged == (["node01", "node02"] if has_log else [])
    assert "What the hardware reported during the run" in page.read_text()
