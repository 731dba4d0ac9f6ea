"""Every collective, type and operator, at odd sizes, against Open MPI through mpi4py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from soak import spread

PROGRAM = Path(__file__).resolve().parent / "programs" / "mpi_differential.py"
TRANSPORTS, KINDS, OPS = 3, 10, 5
COMPRESSED = 3 * 2  # types and operators of top-k: f32, f16, bf16; SUM, AVG


@pytest.mark.soak
@pytest.mark.parametrize("size", spread([2, 3, 4], 1))
def test_against_mpi(library: Path, tier_unavailable: Callable[[str], None], size: int) -> None:
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        tier_unavailable("mpirun is missing: apt-get install openmpi-bin")
    # Without its AVX component: in Open MPI 4.1 that saturates sums of 8-bit integers, which elsewhere wrap around.
    # mpi4py as the main module ends all ranks when one raises.
    command = (
        str(mpirun), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "op", "^avx",
        "--mca", "mpi_yield_when_idle", "1", "-np", str(size),
        sys.executable, "-m", "mpi4py", str(PROGRAM),
    )  # fmt: skip
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CCORE_", "OMPI_", "PMI"))}
    environment = {**clean, "CCORE_LIBRARY": str(library), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["wrong"] == []
    counts = len({0, 1, size - 1, size, size + 1, 13, 127, 4099})
    reduced = TRANSPORTS * (KINDS * OPS * counts + 1)  # and a large one
    copied = TRANSPORTS * KINDS * counts
    expected = {
        "all_reduce": reduced, "all_reduce in place": reduced, "reduce": reduced * size, "reduce_scatter": reduced,
        "broadcast": copied * size, "gather": copied * size, "scatter": copied * size, "all_gather": copied,
        "all_to_all": copied, "all_gatherv": copied, "all_to_allv": copied, "send and recv": copied,
        "barrier": TRANSPORTS * size, "cpu_reduce": reduced,
        "topk_all_reduce": TRANSPORTS * COMPRESSED * counts, "topk_all_reduce sent less": 2,
    }  # fmt: skip
    assert report["cases"] == [expected] * size
