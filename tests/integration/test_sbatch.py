"""``render sbatch`` before a real slurmctld: accepted as it is, and its ranks meet."""

from __future__ import annotations

import re
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


def submitted(cluster, text):
    """Submit a script, and return what its job wrote."""
    script = cluster.directory / "job.sh"
    script.write_text(text)
    sent = cluster.run("sbatch", "--parsable", str(script))
    assert sent.returncode == 0, sent.stderr
    return log_of(cluster, sent.stdout.strip())


def log_of(cluster, job):
    """Return what a job wrote, after its end."""
    log = cluster.directory / f"clusterctl-{job}.log"
    deadline = time.monotonic() + 90
    while cluster.run("squeue", "-h", "-j", job).stdout.strip():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.3)
    return log.read_text()


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
    said = log_of(cluster, sent.stdout.strip())
    assert "Avg bus bandwidth" in said
    assert "Out of bounds values : 0 OK" in said
    assert [f"Rank {rank:2d}" in said for rank in range(4)] == [True] * 4


@pytest.fixture
def with_pyxis(tier_unavailable, tmp_path):
    """A Slurm with a plugin that has the options of Pyxis, of an image that sets NCCL_ALGO itself."""
    if reason := slurm_cluster.missing():
        tier_unavailable(reason)
    if not slurm_cluster.HEADER.exists():
        tier_unavailable(f"{slurm_cluster.HEADER} is missing (apt-get install libslurm-dev)")
    found = slurm_cluster.start_slurm(plugstack=slurm_cluster.with_pyxis(tmp_path))
    yield found
    found.stop()


def test_ranks_run_in_the_image_with_the_variables_of_the_script(run_clusterctl, with_pyxis, tmp_path):
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        "version: 1\n"
        "defaults: {slots: 2, env: {NCCL_ALGO: Ring}, container: {volumes: ['/data:/data:ro', '/code:/code']}}\n"
        "nodes: [node01, node02]\n"
    )
    done = run_clusterctl(
        "render", "sbatch", "-i", str(inventory), "--no-exclusive", "--container", "nvcr.io/nvidia/pytorch:26.10",
        "--", "sh", "-c", "echo $NCCL_ALGO $MASTER_ADDR",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = submitted(with_pyxis, done.stdout)
    lines = sorted(line for line in said.splitlines() if not line.startswith("srun: "))
    assert lines == [f"{rank}: Ring 127.0.0.1" for rank in range(4)], said
    recorded = (tmp_path / "record").read_text().splitlines()
    assert recorded == ["nvcr.io#nvidia/pytorch:26.10 /data:/data:ro,/code:/code"] * 4
    # Without the option that names it, the image's value would have won.
    without = re.sub(r"--container-env=\S+", "--container-env=MASTER_ADDR", done.stdout)
    assert submitted(with_pyxis, without).count(" image 127.0.0.1") == 4


def test_ranks_run_in_a_file_that_enroot_starts(run_clusterctl, cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", slurm_cluster.with_enroot(tmp_path / "enroot"))
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        "version: 1\ndefaults: {slots: 2, env: {NCCL_ALGO: Ring}, container: {volumes: ['/data', '/code:/code']}}\n"
        "nodes: [node01, node02]\n"
    )
    image = tmp_path / "image.sqsh"
    image.touch()
    render = ("render", "sbatch", "-i", str(inventory), "--no-exclusive", "--enroot", "--container")
    program = ("--", "sh", "-c", "echo $NCCL_ALGO $MASTER_ADDR $SLURM_PROCID${HOME}")
    done = run_clusterctl(*render, str(image), *program)
    assert done.returncode == 0, done.stderr
    said = submitted(cluster, done.stdout)
    lines = sorted(line for line in said.splitlines() if not line.startswith("srun: "))
    assert lines == [f"{rank}: Ring 127.0.0.1 {rank}" for rank in range(4)], said
    mounts = "/data:/data:none:rbind,x-create=auto /code:/code:none:rbind,x-create=auto"
    assert (tmp_path / "enroot/record").read_text().splitlines() == [f"{image} {mounts}"] * 4
    refused = run_clusterctl(*render, "nvcr.io/nvidia/pytorch:26.10", *program)
    assert refused.returncode != 0
    assert "enroot without Pyxis starts only a squashfs file" in refused.stderr
    alone = run_clusterctl(*render[:-1], *program)
    assert (alone.returncode, "--enroot needs --container" in alone.stderr) == (2, True)
