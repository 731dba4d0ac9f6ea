"""A rank that the kernel kills for lack of memory: the kernel log of its node names the cause of the failed launch."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest

import collective_core

LIMIT_BYTES = 48 << 20
V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


@pytest.fixture
def small_group(tier_unavailable):
    """A cgroup whose processes may use little memory."""
    version_1 = (V1 / "memory.limit_in_bytes").exists()
    group = (V1 if version_1 else V2) / f"clusterctl-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if version_1 else "memory.max")).write_text(str(LIMIT_BYTES))
        with contextlib.suppress(FileNotFoundError):
            (group / ("memory.memsw.limit_in_bytes" if version_1 else "memory.swap.max")).write_text(
                str(LIMIT_BYTES if version_1 else 0)
            )
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        tier_unavailable(f"memory of processes cannot be limited here: {error}")
    yield group
    group.rmdir()


@pytest.fixture
def program(small_group, tmp_path, tier_unavailable):
    """collective_core's all_reduce_perf, whose rank 1 has little memory."""
    real = Path(collective_core.__file__).parent / "bin" / "all_reduce_perf"
    if not real.exists():
        tier_unavailable("collective_core is not installed")
    if shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")
    path = tmp_path / "all_reduce_perf"
    join = f"echo $$ >{small_group}/cgroup.procs"
    path.write_text(f'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" != 1 ] || {join}\nexec {real} "$@"\n')
    path.chmod(0o755)
    return path


def test_the_kernel_log_names_the_cause_and_explain_finds_it(run_clusterctl, sshd_farm, program, tmp_path):
    farm = sshd_farm(2)
    inventory = farm.inventory(tmp_path, socket_ifname="lo", slots=1, all_reduce_perf=program)
    words = ("--library", "ccore", "--launcher", "openmpi", "-np", "2", "-b", "64M", "-e", "64M")
    done = run_clusterctl("bench", "-i", str(inventory), *words, env=farm.env)
    assert done.returncode == 10, done.stderr
    assert "failed: rank-died: rank 1 on node02 died of signal 9 (kill)" in done.stderr
    assert "cause: kernel-oom-kill on node02: " in done.stderr
    (run,) = (tmp_path / "runs").glob("*-bench-*")
    kept = (run / "logs" / "kernel-node02.log").read_text()
    assert "Memory cgroup out of memory: Killed process" in kept
    cause = json.loads((run / "results.json").read_text())["cause"]
    assert (cause["id"], cause["hosts"]) == ("kernel-oom-kill", ["node02"])
    assert cause["log"]["file"] == "logs/kernel-node02.log"
    explained = run_clusterctl("explain", str(run))
    assert explained.returncode == 0, explained.stderr
    assert "kernel-oom-kill (Linux kernel)" in explained.stdout
