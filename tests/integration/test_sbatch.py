"""``render sbatch`` before a real slurmctld: accepted as it is, and its ranks meet."""

from __future__ import annotations

import sys
import time

import pytest
import slurm_cluster

from clusterctl.workloads.archive import build


@pytest.fixture(scope="module")
def cluster(tier_unavailable):
    if reason := slurm_cluster.missing():
        tier_unavailable(reason)
    found = slurm_cluster.start_slurm(("node01", "node02"))
    yield found
    found.stop()


@pytest.mark.parametrize("slots", [(2, 2), (1, 3)])
def test_the_script_is_accepted_and_runs(run_clusterctl, cluster, tmp_path, slots):
    inventory = tmp_path / "inventory.yaml"
    nodes = "\n".join(f"  - {{name: node0{i}, slots: {n}}}" for i, n in enumerate(slots, start=1))
    inventory.write_text(f"version: 1\nnodes:\n{nodes}\n")
    archive = tmp_path / "workloads.pyz"
    archive.write_bytes(build())
    done = run_clusterctl(
        "render", "sbatch", "-i", str(inventory), "--library", "gloo", "--no-exclusive", "--time", "5",
        "--", sys.executable, str(archive), "collective", "all_reduce", "--backend", "gloo", "-e", "4K", "-n", "2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    script = cluster.directory / f"job{slots[0]}.sh"
    script.write_text(done.stdout)
    tried = cluster.run("sbatch", "--test-only", str(script))
    assert tried.returncode == 0, tried.stderr
    sent = cluster.run("sbatch", "--parsable", str(script))
    assert sent.returncode == 0, sent.stderr
    log = cluster.directory / f"clusterctl-{sent.stdout.strip()}.log"
    deadline = time.monotonic() + 90
    while cluster.run("squeue", "-h", "-j", sent.stdout.strip()).stdout.strip():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.3)
    said = log.read_text()
    assert "Avg bus bandwidth" in said
    assert "Out of bounds values : 0 OK" in said
    assert [f"Rank {rank:2d}" in said for rank in range(4)] == [True] * 4
