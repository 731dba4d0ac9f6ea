"""``bench --launcher srun`` inside an allocation of salloc: its ranks are a step of that job, and of no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import slurm_cluster
from listening import wait_until

NODES = ("node01", "node02")
# All of both nodes: a launch that asked for its own allocation would wait until the test's time is over.
SALLOC = ("salloc", "--quiet", "--nodes=2", "--ntasks=2", "--exclusive")
SAYS_ITS_JOB = '#!/bin/sh\necho "job $SLURM_JOB_ID step $SLURM_STEP_ID"\nexec {python} "$@"\n'


@pytest.fixture(scope="module")
def slurm(tier_unavailable):
    if reason := slurm_cluster.missing():
        tier_unavailable(reason)
    with slurm_cluster.known_everywhere(NODES) as cluster:
        yield cluster


def test_the_ranks_are_a_step_of_the_allocation(slurm, clusterctl, sshd_farm, tmp_path):
    farm = sshd_farm(2)
    python = tmp_path / "python"
    python.write_text(SAYS_ITS_JOB.format(python=sys.executable))
    python.chmod(0o755)
    path = farm.inventory(tmp_path, socket_ifname="lo", slots=1, python=python)
    # The allocation is in the environment of this machine's own processes: the first node is this machine.
    local = f"  - name: node01\n    connection: local\n    address: {farm.nodes[0].address}\n"
    text = path.read_text().replace(f"  - name: node01\n    address: {farm.nodes[0].address}\n", local)
    path.write_text(text)
    bench = (
        str(clusterctl), "bench", "-i", str(path), "--launcher", "srun", "--library", "gloo", "-np", "2",
        "-b", "8", "-e", "4K", "-n", "2", "--timeout", "120", "--json",
    )  # fmt: skip
    done = subprocess.run(
        (*SALLOC, "sh", "-c", 'echo "allocation $SLURM_JOB_ID" >&2; exec "$@"', "sh", *bench),
        env={**os.environ, **farm.env, **slurm.env, "CLUSTERCTL_RUNS": str(tmp_path / "runs")},
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["status"], document["launcher"]) == ("ok", "srun")
    assert [rank["rank"] for rank in document["proof"]["ranks"]] == [0, 1]
    (job,) = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("allocation ")]
    (folder,) = (tmp_path / "runs").glob("*-bench-*")
    said = {(folder / "logs" / f"rank-{rank}.log").read_text().splitlines()[0] for rank in (0, 1)}
    assert said == {f"job {job} step 0"}
    # The allocation is listed until both nodes have said that it is over; one of another's making would stay.
    wait_until(lambda: slurm.run("squeue", "--noheader").stdout == "", "a job is left", 30)
