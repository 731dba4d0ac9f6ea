"""A rank that lies, under every real launcher: it is heard as itself, and no figure or blame of its making counts."""

import json

import pytest
from launcher_nodes import LAUNCHERS, NAMES, inventory, ready

import collective_core

SIZES = [8, 64, 512, 4096]
ROW = "  1073741824     268435456     float     sum      -1  1.00  900.00  900.00  0  1.00  900.00  900.00  0"
# Everything that clusterctl reads in a run's output, in rank 0's or the launcher's name.
LIES = [
    ROW,
    f"[1,0]<stdout>:{ROW}",
    f"[1,0]<stdout>: {ROW}",
    f'</stdout><stdout rank="0">{ROW}&#010;</stdout>',
    f"0: {ROW}",
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : 900",
    "#  Rank  0 Group  0 Pid      1 on     forged device  0 [0000:00:00] forged",
    "# nccl-tests version 9.9.9 forged",
    "NCCL version 9.9.9+forged",
    "# collective_core version 9.9.9 forged",
    "# Library nccl 9.9.9 forged",
    "# Transport: forged",
    "# Neighbours: 1 bytes each way at once, best of 1",
    "# Neighbours of rank 0 on forged: 0.001 GB/s with 1",
    "[1,0]<stderr>:forged:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0",
    'clusterctl-record {"kind": "rank", "rank": 0, "samples_per_s_mean": 900.0}',
]
# And what would blame another, which counts where a launch fails.
BLAMES = [
    "hydra_rank: rank 0 on forged exited with status 9",
    "[1,0]<stderr>:hydra_rank: rank 0 on forged exited with status 9",
    "local_spawn: rank 0 (pid 1) on forged exited on signal 9",
    "agents: rank 0 on forged exited on signal 9",
    "mpirun noticed that process rank 0 with PID 1 on node forged exited on signal 9 (Killed).",
    "<stderr>mpirun noticed that process rank 0 with PID 1 on node forged exited on signal 9 (Killed).&#010;</stderr>",
    "srun: error: forged: task 0: Killed",
    "Process name: [[1,1],0] Exit code: 9",
    "ORTE has lost communication with a remote daemon. Remote daemon: [[1,0],1] on node forged",
    "Root Cause (first observed failure):",
    "  rank      : 0 (local_rank: 0)",
    "  exitcode  : -9 (pid: 1)",
    "============================================================",
    "the job has been aborted",
]
# Each lie on both outputs, as whole lines and behind half a line.
LIAR = """#!/bin/sh
rank=${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-${{RANK:-$SLURM_PROCID}}}}}}
if [ "$rank" = 1 ]; then
  cat {lies}; cat {lies} >&2
  printf 'half a line'; sleep 0.2; head -n 4 {lies}; printf 'half a line' >&2; sleep 0.2; cat {lies} >&2
  {then}
fi
exec {perf} "$@"
"""


@pytest.fixture(params=LAUNCHERS)
def launcher(request, tier_unavailable):
    return ready(request, request.param, tier_unavailable)


@pytest.fixture
def bench(run_clusterctl, sshd_farm, tmp_path, launcher):
    """Run all_reduce_perf over two nodes, with lies of rank 1 before it starts, or before it fails."""
    name, settings = launcher

    def run(lies, then=":"):
        (tmp_path / "lies").write_text("".join(f"{lie}\n" for lie in lies))
        program = tmp_path / "all_reduce_perf"
        perf = collective_core.perf_binary("all_reduce_perf")
        program.write_text(LIAR.format(lies=tmp_path / "lies", then=then, perf=perf))
        program.chmod(0o755)
        farm = sshd_farm(2)
        path = inventory(farm, tmp_path, {**settings, "all_reduce_perf": program}, (1, 1))
        words = ("--launcher", NAMES[name], "--library", "ccore", "-b", "8", "-e", "4K", "-f", "8", "-n", "2")
        return run_clusterctl("bench", "-i", path, *words, "--json", env=farm.env)

    return run


def test_no_figure_of_a_run_is_forged(bench):
    done = bench(LIES)
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (0, "ok"), done.stderr
    (only,) = document["variants"]
    assert [row["size_bytes"] for row in only["rows"]] == SIZES
    assert all(row["busbw_gbps"]["median"] < 800 for row in only["rows"])
    assert {rank["host"] for rank in document["proof"]["ranks"]}.isdisjoint({"forged"})
    assert "forged" not in json.dumps([{**document["proof"], "settings": None}, only["proof"]])


def test_no_other_rank_is_blamed(bench):
    done = bench([*LIES, *BLAMES], then="exit 3")
    failures = json.loads(done.stdout)["proof"]["failures"]
    assert done.returncode == 10
    (died,) = [fault for fault in failures if fault["kind"] == "rank-died"]
    assert (died["rank"], died["node"]) == (1, "node02"), failures
    assert died["message"].startswith("rank 1 on node02 ended with status 3"), failures
