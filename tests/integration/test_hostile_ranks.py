"""A rank that sends code, or anything else than what is expected, is refused by its number on all other ranks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from free_ports import free_port

TESTS = Path(__file__).resolve().parents[1]
PROGRAM = str(TESTS / "support" / "hostile_rank.py")
SIZE = 3
REFUSED = "rank 1 sent a value that is not valid here: "
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(SIZE))
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(SIZE), "--master-port")


@pytest.fixture(params=["mpirun", "torchrun"])
def ranks(request, tier_unavailable):
    """Run the program as three ranks under a real launcher; rank 1 lies."""
    if request.param == "mpirun" and shutil.which("mpirun") is None:
        tier_unavailable("mpirun is not installed (apt-get install openmpi-bin)")

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        port = str(free_port())
        launcher = MPIRUN if request.param == "mpirun" else (*TORCHRUN, port)
        program = (sys.executable, PROGRAM) if request.param == "mpirun" else (PROGRAM,)
        environ = {
            **os.environ,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "PYTHONPATH": str(TESTS.parent),
        }
        return subprocess.run(
            [*launcher, *program, *map(str, words)],
            env=environ, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("library", ["gloo", "ccore", "core"])
def test_no_lie_is_run_or_believed(ranks, library, tmp_path):
    done = ranks("lies", tmp_path / "run", library)
    assert done.returncode == 0, done.stderr
    ends, others = (json.loads((tmp_path / f"run.rank{rank}").read_text()) for rank in (0, 2))
    assert ends == others, "the honest ranks did not agree"
    # Of the seeded changes a few leave the value valid.
    assert all(end.startswith(REFUSED) for end in ends[:16]), ends[:16]
    kinds = Counter(end == "read" or end.startswith(REFUSED) for end in ends)
    assert kinds == {True: 120}
    assert not (tmp_path / "run").exists(), "a rank ran what another one had sent"


WORKLOADS = {
    "bench": ("collective", "all_reduce", "-b", "64K", "-e", "64K", "-n", "1", "--backend", "gloo", "-T", "100"),
    "locate": ("locate", "--backend", "gloo", "--nodes", "0,1,2", "-T", "100"),
    "locate without torch": ("locate", "--backend", "ccore", "--without-torch", "--nodes", "0,1,2", "-T", "100"),
    "training": ("training", "--model", "resnet50", "--backend", "ccore", "--timeout-s", "100"),
    "horovod": ("training", "--api", "horovod", "--model", "resnet50", "--backend", "ccore", "--timeout-s", "100"),
}  # fmt: skip


@pytest.mark.parametrize("ranks", ["mpirun"], indirect=True)
@pytest.mark.parametrize("words", WORKLOADS.values(), ids=WORKLOADS)
def test_a_workload_ends_with_the_number_of_the_rank_that_sent_code(ranks, words, tmp_path):
    done = ranks("workload", tmp_path / "run", *words)
    assert done.returncode == 4, done.stderr
    assert REFUSED in done.stderr, done.stderr
    assert not (tmp_path / "run").exists(), "a rank ran what another one had sent"
