"""The training workload as a process, as nodes run it: from the archive, by file path, with real torch."""

import json
import os
import subprocess
import sys

import pytest
import warm_python
from free_ports import free_port

from clusterctl.benchmarks import training
from clusterctl.workloads import places
from clusterctl.workloads.archive import build

SMALL = ("training", "--model", "resnet18", "--batch-size", "4", "--image-size", "32")


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("workloads") / "workloads.pyz"
    path.write_bytes(build())
    return path


def run(archive, *arguments, env=None, timeout_s=120):
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", **(env or {})}
    return warm_python.run(
        [sys.executable, str(archive), *arguments], environment, cwd=archive.parent, timeout=timeout_s
    )


def run_ranks(archive, size, *arguments, timeout_s=120):
    port = free_port()
    processes = [
        warm_python.start(
            [sys.executable, str(archive), *arguments],
            {
                "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(size), "GLOO_SOCKET_IFNAME": "lo",
            },
        )
        for rank in range(size)
    ]  # fmt: skip
    try:
        outputs = [process.communicate(timeout=timeout_s) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [(process.returncode, *output) for process, output in zip(processes, outputs, strict=True)]


def test_the_archive_is_the_same_for_the_same_sources():
    assert build() == build()


def test_the_loss_falls_on_a_fixed_batch(archive):
    done = run(archive, *SMALL, "--warmup", "1", "--windows", "2", "--steps", "4", "--learning-rate", "0.05")
    assert done.returncode == 0, done.stderr
    run_ = training.parse({0: done.stdout})
    (rate,) = run_.rates
    assert 5.0 < rate.loss_first < 9.0  # about log(1000) at the start
    assert rate.loss_last < 0.6 * rate.loss_first
    assert run_.faults == ()
    assert run_.settings["parameters"] == 11_689_512


def test_horovods_lines_are_kept(archive):
    done = run(archive, *SMALL, "--warmup", "1", "--windows", "1", "--steps", "1")
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("Img/sec per CPU: ") and " +-" in line]
    assert [line for line in lines if line.startswith("Total img/sec on 1 CPU(s): ")]


def test_two_ranks_train_one_model(archive):
    (code0, out0, err0), (code1, out1, err1) = run_ranks(
        archive, 2, *SMALL, "--backend", "gloo", "--warmup", "1", "--windows", "1", "--steps", "2"
    )
    assert (code0, code1) == (0, 0), err0 + err1
    run_ = training.parse({0: out0, 1: out1})
    assert run_.faults == ()
    assert [rank.rank for rank in run_.ranks] == [0, 1]
    assert len({rank.pid for rank in run_.ranks}) == 2
    # Their data differ, their parameters afterwards do not: gradients really were averaged.
    assert run_.rates[0].loss_first != run_.rates[1].loss_first
    digests = {
        json.loads(line.partition(" ")[2])["parameters_digest"]
        for line in (out0 + out1).splitlines()
        if '"kind": "rank"' in line
    }
    assert len(digests) == 1


def test_training_alone_gives_another_model_than_training_together(archive):
    """The digest that proves replicas equal must tell different parameters apart."""
    alone = run(archive, *SMALL, "--warmup", "1", "--windows", "1", "--steps", "1", "--seed", "20")
    other = run(archive, *SMALL, "--warmup", "1", "--windows", "1", "--steps", "2", "--seed", "20")

    def digest(done):
        (line,) = [line for line in done.stdout.splitlines() if '"kind": "rank"' in line]
        return json.loads(line.partition(" ")[2])["parameters_digest"]

    assert digest(alone) != digest(other)


def test_a_loss_that_is_no_number_ends_the_rank(archive):
    done = run(archive, *SMALL, "--warmup", "1", "--windows", "2", "--steps", "2", "--learning-rate", "1e30")
    assert done.returncode == 3
    assert "rank 0" in done.stderr
    assert [fault.kind.value for fault in training.parse({0: done.stdout}).faults] == ["nan-loss"]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, "MASTER_ADDR and MASTER_PORT must be set"),
        ({"RANK": "3", "WORLD_SIZE": "2"}, "rank 3 of 2"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "not a number"),
    ],
)
def test_a_rank_without_a_place_says_so(archive, env, words):
    done = run(archive, *SMALL, env=env)
    assert done.returncode == 4
    assert words in done.stderr


def test_nccl_without_a_gpu_is_refused(archive):
    env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    done = run(archive, *SMALL, "--backend", "nccl", "--device", "cpu", env=env)
    assert done.returncode == 4
    assert "nccl needs GPUs" in done.stderr


@pytest.mark.parametrize(
    ("env", "launcher", "rank", "local"),
    [
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "RANK": "9",
          "WORLD_SIZE": "10"}, "openmpi", 3, 1),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"}, "mpich", 1, 0),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}, "srun", 5, 1),
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "environment", 1, 1),
        ({"RANK": "6", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "TORCHELASTIC_RUN_ID": "x", "SLURM_PROCID": "1",
          "SLURM_NTASKS": "2"}, "torchrun", 6, 2),
        ({}, "none", 0, 0),
    ],
)  # fmt: skip
def test_every_launcher_is_understood(env, launcher, rank, local):
    place = places.read_place(env)
    assert (place.launcher, place.rank, place.local_rank) == (launcher, rank, local)


@pytest.mark.parametrize(
    ("counts", "node", "size"),
    [("2(x2),1", "1", 2), ("2(x2),1", "2", 1), ("4", "0", 4), ("", "0", 2), ("1,3", "1", 3), ("2", "7", 2)],
)
def test_slurms_list_of_tasks_says_how_many_are_here(counts, node, size):
    env = {"SLURM_PROCID": "3", "SLURM_NTASKS": "5", "SLURM_LOCALID": "0", "SLURM_NODEID": node}
    if size > 1:
        env["SLURM_LOCALID"] = "1"
    assert places.read_place({**env, "SLURM_STEP_TASKS_PER_NODE": counts}).local_size == size


def test_a_local_size_too_small_for_the_local_rank_is_not_believed():
    """Open MPI 5.0.11 tells a node with three ranks that it has one, as the first node has."""
    env = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "2"}
    assert places.read_place({**env, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}).local_size == 3


def test_the_archive_needs_nothing_of_ours_but_itself(archive):
    """Isolated from this checkout and its dependencies: only torch and the standard library are imported."""
    code = (
        "import runpy, sys; sys.argv = ['w', 'training', '--help'];\n"
        f"sys.path.insert(0, {str(archive)!r})\n"
        "import clusterctl\nassert '.pyz' in clusterctl.__path__[0], clusterctl.__path__\n"
        "from clusterctl.workloads import synthetic_training, collective_perf\n"
        "bad = {'pydantic', 'typer', 'rich', 'yaml', 'fabric'} & set(sys.modules)\nassert not bad, bad\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=archive.parent,
        check=False,
    )
    assert done.returncode == 0, done.stderr
