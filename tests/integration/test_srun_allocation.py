"""``bench`` and ``launch`` inside an allocation of salloc: the ranks are a step of that job, and of no other."""

from __future__ import annotations

import json
import os
import re
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
def slurm(tier_unavailable, tmp_path_factory):
    if reason := slurm_cluster.missing():
        tier_unavailable(reason)
    if not slurm_cluster.HEADER.exists():
        tier_unavailable(f"{slurm_cluster.HEADER} is missing (apt-get install libslurm-dev)")
    folder = tmp_path_factory.mktemp("pyxis")
    with slurm_cluster.known_everywhere(NODES, slurm_cluster.with_pyxis(folder)) as cluster:
        yield cluster, folder / "record"


@pytest.fixture
def in_allocation(slurm, clusterctl, sshd_farm, tmp_path):
    """Run a command of clusterctl in an allocation of both nodes; the first is this machine."""
    cluster, _ = slurm

    def run(command, *arguments, path=None, refused=False, **settings):
        farm = sshd_farm(2, sshd_config="" if path is None else f"SetEnv SHLVL=1 PATH={path}")
        search = {} if path is None else {"PATH": path}
        inventory = farm.inventory(tmp_path, socket_ifname="lo", slots=1, **settings)
        # The allocation is in the environment of this machine's own processes: the first node is this machine.
        local = f"  - name: node01\n    connection: local\n    address: {farm.nodes[0].address}\n"
        text = inventory.read_text().replace(
            f"  - name: node01\n    address: {farm.nodes[0].address}\n", local
        )
        inventory.write_text(text)
        words = (*SALLOC, "sh", "-c", 'echo "allocation $SLURM_JOB_ID" >&2; exec "$@"', "sh")
        done = subprocess.run(
            (*words, str(clusterctl), command, str(inventory), *arguments),
            env={**os.environ, **farm.env, **cluster.env, **search, "CLUSTERCTL_RUNS": str(tmp_path / "runs")},
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250, check=False,
        )  # fmt: skip
        if refused:
            return done
        assert done.stdout, done.stderr
        document = json.loads(done.stdout)
        (job,) = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("allocation ")]
        # The allocation is listed until both nodes have said that it is over; one of another's making would stay.
        wait_until(lambda: cluster.run("squeue", "--noheader").stdout == "", "a job is left", 30)
        return done, document, job

    return run


def test_the_ranks_are_a_step_of_the_allocation(in_allocation, tmp_path):
    python = tmp_path / "python"
    python.write_text(SAYS_ITS_JOB.format(python=sys.executable))
    python.chmod(0o755)
    done, document, job = in_allocation(
        "bench", "--launcher", "srun", "--library", "gloo", "-np", "2", "-b", "8", "-e", "4K", "-n", "2",
        "--timeout", "120", "--json", python=python,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (document["status"], document["launcher"]) == ("ok", "srun")
    assert [rank["rank"] for rank in document["proof"]["ranks"]] == [0, 1]
    (folder,) = (tmp_path / "runs").glob("*-bench-*")
    said = {(folder / "logs" / f"rank-{rank}.log").read_text().splitlines()[0] for rank in (0, 1)}
    assert said == {f"job {job} step 0"}


def test_a_program_runs_in_an_image_that_pyxis_starts(slurm, in_allocation, tmp_path):
    """The plugin has Pyxis' options and its rule for variables, and starts no container."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.sh").write_text(
        'echo "job $SLURM_JOB_ID $NCCL_ALGO rank $RANK of $WORLD_SIZE"\nexit "$1"\n'
    )
    image = "nvcr.io/nvidia/pytorch:26.10"
    common = ("--container", image, "--bring", str(code), "--json", "--", "sh", "train.sh")
    settings = {"env": {"NCCL_ALGO": "Ring"}, "container": {"volumes": ["/data:/data:ro"]}}
    done, document, job = in_allocation("launch", *common, "0", **settings)
    assert done.returncode == 0, done.stderr
    assert (document["status"], document["launcher"]) == ("ok", "srun")
    assert document["proof"]["settings"]["program"] == f"sh train.sh 0  # in {image}"
    assert "versions" not in document["proof"]
    (folder,) = (tmp_path / "runs").glob("*-launch-*")
    for rank in (0, 1):
        assert (folder / "logs" / f"rank-{rank}.log").read_text().splitlines() == [
            f"job {job} Ring rank {rank} of 2"
        ]
    (token,) = set(re.findall(r"/tmp/clusterctl-[0-9a-f]{16}", (folder / "launch.json").read_text()))
    recorded = slurm[1].read_text().splitlines()
    assert recorded == [f"nvcr.io#nvidia/pytorch:26.10 /data:/data:ro,{token}:{token}"] * 2

    done, document, _ = in_allocation("launch", *common, "7", **settings)
    assert done.returncode == 10
    (fault,) = document["proof"]["failures"]
    assert (fault["kind"], "status 7" in fault["message"]) == ("rank-died", True), fault


def test_a_slurm_without_pyxis_is_named(slurm, in_allocation):
    plugins = slurm[0].directory / "plugstack.conf"
    listed = plugins.read_text()
    plugins.write_text("")
    try:
        done, document, _ = in_allocation("launch", "--container", "debian:12", "--json", "--", "true")
    finally:
        plugins.write_text(listed)
    assert done.returncode == 10
    assert document["cause"]["id"] == "slurm-without-pyxis", document["cause"]


def test_a_program_runs_in_a_file_that_enroot_starts_without_pyxis(slurm, in_allocation, tmp_path):
    """The stand-in has enroot's options and its rule for variables, and starts no container."""
    plugins = slurm[0].directory / "plugstack.conf"
    listed = plugins.read_text()
    plugins.write_text("")
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.sh").write_text('echo "job $SLURM_JOB_ID $NCCL_ALGO rank $RANK of $WORLD_SIZE $HOME"\n')
    image = tmp_path / "image.sqsh"
    image.touch()
    path = slurm_cluster.with_enroot(tmp_path / "enroot")
    settings = {"env": {"NCCL_ALGO": "Ring"}, "container": {"volumes": ["/data:/data:ro"]}, "path": path}
    common = ("--bring", str(code), "--json", "--", "sh", "train.sh")
    try:
        done, document, job = in_allocation("launch", "--container", str(image), *common, **settings)
        missing, failed, _ = in_allocation("launch", "--container", f"{image}.old", *common, **settings)
        named = in_allocation("launch", "--container", "debian:12", *common, path=path, refused=True)
    finally:
        plugins.write_text(listed)
    assert done.returncode == 0, done.stderr
    assert (document["status"], document["launcher"]) == ("ok", "srun")
    recorded = (tmp_path / "enroot/record").read_text().splitlines()
    (token,) = {line.split(":")[-3].split()[-1] for line in recorded}
    launches = (tmp_path / "runs").glob("*-launch-*/launch.json")
    (folder,) = {found.parent for found in launches if token in found.read_text()}
    for rank in (0, 1):
        # Neither the HOME of the host nor the value of the image is the program's.
        log = (folder / "logs" / f"rank-{rank}.log").read_text()
        assert log.splitlines() == [f"job {job} Ring rank {rank} of 2 "]
    mounts = f"/data:/data:none:rbind,x-create=auto,ro {token}:{token}:none:rbind,x-create=auto"
    assert recorded == [f"{image} {mounts}"] * 2
    assert missing.returncode == 10
    assert [fault["message"] for fault in failed["proof"]["failures"]] == [
        f"node[01-02]: {image}.old not found"
    ]
    assert named.returncode == 9, named.stderr
    assert "enroot without Pyxis starts only a squashfs file, not the image 'debian:12'" in named.stderr


def test_only_srun_starts_ranks_in_an_image(run_clusterctl, tmp_path):
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("version: 1\nnodes: [node01, node02]\n")
    for words, message in (
        (("--launcher", "openmpi"), "--container needs the launcher srun, not openmpi"),
        (("--containers",), "--container and --containers cannot be combined"),
    ):
        where = () if words == ("--containers",) else (str(inventory),)
        done = run_clusterctl("launch", *where, *words, "--container", "debian:12", "--", "true")
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
