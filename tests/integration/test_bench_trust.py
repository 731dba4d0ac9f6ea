"""What ``bench`` proves of a run, and holds it against: real sshd, mpirun and files; NCCL's own words are injected.

No machine of these tests has a GPU, so that a stand-in for nccl-tests prints a recorded table, and writes NCCL's log
where the launch told NCCL to write it.
"""

import json
import shutil
import sys
from pathlib import Path

import pytest
from topology_documents import GRAPHS, HGX, SLOW_CARD

CASE = (
    Path(__file__).parents[1] / "unit" / "benchmarks" / "cases" / "h200-x4-all_reduce_perf-mpirun-np2-g1.txt"
)
FAST = "NET/IB/0/GDRDMA"
# The sizes of the table that is printed.
SIZES = ("-b", "1K", "-e", "1G", "-f", "4")
COLLECTIVE = ("--collective", "all_reduce", "--library", "nccl", "-np", "2", *SIZES, "--json")


@pytest.fixture(autouse=True)
def _mpirun(tier_unavailable):
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")


def stand_in(tmp_path, ways, table=None, dumps=(HGX, HGX)):
    """A program that says in NCCL's words that rank n's channels go ``ways[n]``, and on rank 0 prints the table.

    Where the launch tells NCCL to, rank n writes the topology ``dumps[n]``.
    """
    folder = tmp_path / "dumps"
    folder.mkdir(exist_ok=True)
    for rank, dump in enumerate(dumps):
        (folder / f"topo-{rank}.xml").write_text(dump)
    (folder / "graph.xml").write_text(GRAPHS)
    output = tmp_path / "table.txt"
    output.write_text(table if table is not None else CASE.read_text())
    cases = "".join(f"  {rank}) way={way} ;;\n" for rank, way in enumerate(ways))
    path = tmp_path / "all_reduce_perf"
    path.write_text(
        f"""#!/bin/sh
rank=$OMPI_COMM_WORLD_RANK
case $rank in
{cases}esac
say() {{ echo "host$rank:7:7 [0] NCCL INFO $1"; }}
if [ "$NCCL_DEBUG" = INFO ]; then
  {{
    say "NCCL version 2.28.9+cuda13.0"
    case $way in NET/Socket*) say "NET/IB : No device found." ;; esac
    say "comm 0x1 rank $rank nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"
    say "Channel 00/0 : 0[0] -> 1[0] [send] via $way"
    say "Channel 00/0 : 1[0] -> 0[0] [receive] via $way"
  }} >"$NCCL_DEBUG_FILE"
fi
[ "$rank" != "${{NCCL_TOPO_DUMP_FILE_RANK:-0}}" ] || cp {folder}/topo-$rank.xml "$NCCL_TOPO_DUMP_FILE"
graph=$NCCL_GRAPH_DUMP_FILE
[ "$rank" != "${{NCCL_GRAPH_DUMP_FILE_RANK:-0}}" ] || [ -z "$graph" ] || cp {folder}/graph.xml "$graph"
# Whoever logs says its version there, and not in the table.
[ "$rank" = 0 ] || exit 0
if [ "$NCCL_DEBUG" = INFO ]; then grep -v '^NCCL version' {output}; else cat {output}; fi
"""
    )
    path.chmod(0o755)
    return str(path)


def across(farm, tmp_path, program):
    return str(
        farm.inventory(tmp_path, socket_ifname="lo", slots=1, python=sys.executable, all_reduce_perf=program)
    )


def test_a_node_that_falls_back_to_sockets_fails_the_run_and_is_named(run_clusterctl, sshd_farm, tmp_path):
    farm = sshd_farm(2)
    inventory = across(farm, tmp_path, stand_in(tmp_path, [FAST, "NET/Socket/0"]))
    done = run_clusterctl("bench", "-i", inventory, *COLLECTIVE, env=farm.env)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "failed"
    (fault,) = document["proof"]["failures"]
    assert (fault["kind"], fault["node"]) == ("slow-path", "node02")
    assert "failed: slow-path: node02 fell back to sockets (NET/Socket)" in done.stderr
    proof = {node["name"]: node for node in document["variants"][0]["proof"]["gpudirect"]["nodes"]}
    assert proof["node01"]["status"] == "proven"
    assert proof["node01"]["send"] == {"NET/IB/GDRDMA": 1}
    # The log went another way than the table, of which no row is lost, and its version is in the key.
    assert len(document["variants"][0]["rows"]) == 11
    assert document["variants"][0]["keys"]["2"]["library_version"] == "2.28.9"
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert "via NET/Socket" in (folder / "logs" / "rank-1.log").read_text()

    allowed = run_clusterctl("bench", "-i", inventory, *COLLECTIVE, "--allow-slow-path", env=farm.env)
    assert allowed.returncode == 0, allowed.stderr
    document = json.loads(allowed.stdout)
    assert (document["status"], document["variants"][0]["proof"]["gpudirect"]["status"]) == (
        "ok",
        "fallen-back",
    )


def test_a_proven_run_says_so_in_its_table(run_clusterctl, sshd_farm, tmp_path):
    farm = sshd_farm(2)
    inventory = across(farm, tmp_path, stand_in(tmp_path, [FAST, FAST]))
    done = run_clusterctl("bench", "-i", inventory, *COLLECTIVE[:-1], env=farm.env)
    assert done.returncode == 0, done.stderr
    assert "GPUDirect RDMA: proven (NET/IB/GDRDMA), on all 2 nodes" in done.stdout
    assert "expected busbw: unknown (" in done.stdout


def test_the_topology_that_nccl_wrote_on_every_node_is_kept_and_compared(run_clusterctl, sshd_farm, tmp_path):
    farm = sshd_farm(2)
    program = stand_in(tmp_path, [FAST, FAST], dumps=(HGX, SLOW_CARD))
    page = tmp_path / "page.html"
    inventory = across(farm, tmp_path, program)
    done = run_clusterctl("bench", "-i", inventory, *COLLECTIVE, "--html", str(page), env=farm.env)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["proof"]["topology"]
    assert [(group["nodes"], group["source"]) for group in found["groups"]] == [
        (["node01"], "nccl"),
        (["node02"], "nccl"),
    ]
    # The nodes show no NCCL, and an old one would end the run if it had to write its graphs on each of them.
    assert found["groups"][1]["graphs"] == []
    line = "node02 differs from node01: mlx5_5: 200 Gb/s (others: 400 Gb/s)"
    assert line in page.read_text()
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    kept = {path.name: path.read_text() for path in (folder / "nccl").iterdir()}
    assert kept == {"node01-topo.xml": f"{HGX}\n", "node02-topo.xml": f"{SLOW_CARD}\n"}
    # The launch directory, which held the files, is removed.
    token = json.loads((folder / "launch.json").read_text())["launches"][0]["env"]["NCCL_TOPO_DUMP_FILE"]
    assert not Path(token).parent.exists()
    assert f"topology: {line}" in run_clusterctl("runs", "show", folder.name).stdout


def test_a_baseline_is_recorded_and_a_slower_run_is_below_it(run_clusterctl, tmp_path):
    program = stand_in(tmp_path, [FAST, FAST])
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        "version: 1\nnodes:\n  - {name: here, connection: local, address: localhost, slots: 2, "
        f"python: {sys.executable}, all_reduce_perf: {program}}}\n"
    )

    def bench(*more):
        return run_clusterctl("bench", "-i", str(inventory), "--launcher", "openmpi", *COLLECTIVE, *more)

    early = bench("--baseline", "night")
    assert early.returncode == 2
    assert "baseline 'night' not found" in early.stderr
    first = bench()
    assert first.returncode == 0
    (group,) = json.loads(first.stdout)["proof"]["topology"]["groups"]
    assert [graph["name"] for graph in group["graphs"]] == ["ring", "tree", "NVLS"]
    recorded = run_clusterctl("runs", "baseline", "record", "night")
    assert recorded.returncode == 0, recorded.stderr
    assert "2 more make it noise-aware" in recorded.stderr
    same = bench("--baseline", "night")
    assert same.returncode == 0, same.stderr
    assert json.loads(same.stdout)["proof"]["baseline"]["verdict"] == "ok"

    # The repeats of one run are repeats of the baseline, and a run with repeats is judged too.
    assert bench("--repeats", "3").returncode == 0
    steady = run_clusterctl("runs", "baseline", "record", "steady")
    assert "3 repeats from 1 run" in steady.stderr and "noise-aware" not in steady.stderr
    again = bench("--repeats", "2", "--baseline", "steady")
    assert again.returncode == 0, again.stderr
    found = json.loads(again.stdout)["proof"]["baseline"]
    assert found["verdict"] == "ok" and found["judged"] == found["figures"] > 5 and found["reason"] is None
    assert run_clusterctl("runs", "baseline", "remove", "steady").returncode == 0

    # The last row's bandwidths fall by a fifth.
    slower = CASE.read_text().replace("329.52", "263.60").replace("330.84", "264.60")
    stand_in(tmp_path, [FAST, FAST], slower)
    done = bench("--baseline", "night")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "below-baseline"
    (row,) = document["proof"]["baseline"]["below"]
    assert (row["size_bytes"], row["baseline"]) == (1 << 30, 329.52)
    refused = run_clusterctl("runs", "baseline", "record", "night")
    assert refused.returncode == 2
    assert "has the status below-baseline; expected 'ok'" in refused.stderr
    shown = run_clusterctl("runs", "baseline", "show", "night")
    assert "1 GiB" in shown.stdout
    assert (
        json.loads(run_clusterctl("runs", "baseline", "list", "--json").stdout)["baselines"][0]["name"]
        == "night"
    )
    assert run_clusterctl("runs", "baseline", "remove", "night").returncode == 0
    assert "no baseline yet" in run_clusterctl("runs", "baseline", "list").stderr
    assert "third-party" in run_clusterctl("runs", "baseline", "catalogue").stdout
