"""The siblings of all_reduce_perf: every collective under mpirun, checked, and a wrong result is seen."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from perf_rows import rows_of

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Program:
    """What nccl-tests' doc/PERFORMANCE.md and sources say of a test."""

    name: str
    blocks: bool  # the larger buffer holds one block per rank
    bus_factor: Callable[[int], float]
    reduces: bool = False
    rooted: bool = False
    in_place: bool = True

    def __str__(self) -> str:
        return self.name


def all_but_own(p: int) -> float:
    return (p - 1) / p


PROGRAMS = (
    Program("all_gather_perf", True, all_but_own),
    Program("all_gatherv_perf", True, all_but_own),
    Program("all_reduce_perf", False, lambda p: 2 * (p - 1) / p, reduces=True),
    Program("alltoall_perf", True, all_but_own, in_place=False),
    Program("alltoallv_perf", True, all_but_own, in_place=False),
    Program("broadcast_perf", False, lambda _: 1.0, rooted=True),
    Program("gather_perf", True, all_but_own, rooted=True),
    Program("hypercube_perf", True, all_but_own),
    Program("reduce_perf", False, lambda _: 1.0, reduces=True, rooted=True),
    Program("reduce_scatter_perf", True, all_but_own, reduces=True),
    Program("scatter_perf", True, all_but_own, rooted=True),
    Program("sendrecv_perf", False, lambda _: 1.0, in_place=False),
)
SIZES = [1 << 10, 32 << 10, 1 << 20]
SWEEP = ("-b", "1K", "-e", "1M", "-f", "32", "-n", "2", "-c", "1", "-d", "all")


@pytest.fixture
def mpirun(tier_unavailable: Callable[[str], None]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program on so many ranks, with an environment that names no rank and no rendezvous."""
    found = shutil.which("mpirun")
    if found is None:
        tier_unavailable("mpirun is missing: apt-get install openmpi-bin")
    drop = ("CCORE_", "OMPI_", "PMI", "SLURM_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(drop)}

    def run(
        size: int, *command: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        given = dict(environment or {})
        passed = tuple(word for name in given for word in ("-x", name))
        return subprocess.run(
            (str(found), "--allow-run-as-root", "--oversubscribe", "-np", str(size), *passed, *command),
            env={**clean, **given}, capture_output=True, text=True, timeout=120, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_every_result_is_right(
    perf: Callable[[str], Path],
    mpirun: Callable[..., subprocess.CompletedProcess[str]],
    program: Program,
    size: int,
) -> None:
    done = mpirun(size, str(perf(program.name)), *SWEEP)
    if program.name == "hypercube_perf" and size == 3:
        assert done.returncode != 0
        assert "hypercube_perf: 3 ranks: expected a power of two" in done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"# Collective test starting: {program.name}" in done.stdout
    assert f"# Collective test concluded: {program.name}" in done.stdout
    assert "# Out of bounds values : 0 OK" in done.stdout
    rows = rows_of(done.stdout)
    assert len(rows) == 12 * len(SIZES)
    assert {row["wrong"] for row in rows} == {"0"}
    assert {row["wrong_in"] for row in rows} == {"0" if program.in_place else "N/A"}
    assert {row["redop"] for row in rows} == {"sum" if program.reduces else "none"}
    assert {row["root"] for row in rows} == {"0" if program.rooted else "-1"}
    for row, wanted in zip([row for row in rows if row["type"] == "float"], SIZES, strict=True):
        blocks = size if program.blocks else 1
        assert int(row["count"]) == wanted // 4 // blocks
        assert int(row["size"]) == wanted // 4 // blocks * blocks * 4
        # All three are printed with two places.
        algbw = int(row["size"]) / float(row["time"]) / 1000
        rounding = 0.01 + 0.006 / float(row["time"])
        assert float(row["algbw"]) == pytest.approx(algbw, rel=rounding, abs=0.01)
        busbw = float(row["algbw"]) * program.bus_factor(size)
        assert float(row["busbw"]) == pytest.approx(busbw, rel=0.01, abs=0.02)


@pytest.fixture(scope="session")
def corrupting(preload: Callable[[str], Path]) -> Path:
    """A library that, preloaded, spoils the results of one rank."""
    return preload("corrupt")


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_wrong_result_is_counted(
    perf: Callable[[str], Path],
    mpirun: Callable[..., subprocess.CompletedProcess[str]],
    corrupting: Path,
    program: Program,
) -> None:
    # On the rank that has a result: the root, or the last one.
    spoil = {"LD_PRELOAD": str(corrupting), "CORRUPT_RANK": "1"}
    flags = ("-b", "4K", "-e", "4K", "-n", "1", "-r", "1")
    done = mpirun(2, str(perf(program.name)), *flags, environment=spoil)
    assert done.returncode == 1, done.stdout + done.stderr
    (row,) = rows_of(done.stdout)
    assert row["wrong"] == "1"
    assert row["wrong_in"] == ("1" if program.in_place else "N/A")
    wrong = 2 if program.in_place else 1
    assert f"# Out of bounds values : {wrong} FAILED" in done.stdout
    assert done.stdout.count("FAILED") == 1


@pytest.mark.parametrize("program", [one for one in PROGRAMS if one.rooted], ids=str)
def test_every_rank_as_the_root(
    perf: Callable[[str], Path], mpirun: Callable[..., subprocess.CompletedProcess[str]], program: Program
) -> None:
    done = mpirun(3, str(perf(program.name)), "-b", "12K", "-e", "12K", "-n", "1", "-r", "all")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["root"] for row in rows_of(done.stdout)] == ["0", "1", "2"]
    assert "# Out of bounds values : 0 OK" in done.stdout


def test_a_root_that_is_no_rank(
    perf: Callable[[str], Path], mpirun: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = mpirun(2, str(perf("broadcast_perf")), "-b", "8", "-e", "8", "-r", "2")
    assert done.returncode != 0
    assert "broadcast_perf: -r 2: there are only 2 ranks, from 0 on" in done.stderr
