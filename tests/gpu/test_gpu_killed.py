"""A rank is killed or stopped at a random moment, or a group is aborted: the others raise in time, no kernel spins."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_alone]

World = Callable[..., list[str]]
PROGRAM = Path(__file__).parent / "programs" / "cuda_killed.py"
# Moments: of a path in ``make gpu``, and of each of the programs that ``make gpu-all`` runs at the same time.
FEW, MANY, AT_ONCE = 4, 7, 4
IDLE_WITHIN_S = 10.0


@pytest.fixture
def _idle_afterwards() -> Iterator[None]:
    """Expect that nothing computes on the GPU after the test."""
    yield
    end = time.monotonic() + IDLE_WITHIN_S
    while (busy := utilization()) and time.monotonic() < end:
        time.sleep(0.2)
    assert busy == 0, f"the GPU is still busy after {IDLE_WITHIN_S:g} s"


def utilization() -> int:
    """Return the share of the last sample in which a kernel ran, in per cent."""
    query = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--id=0")
    return int(subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout)


def run_moments(moments: int, seeds: range) -> None:
    """Run the program once for each seed, all at the same time."""
    programs = [
        subprocess.Popen(
            (sys.executable, str(PROGRAM), str(moments), str(seed)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for seed in seeds
    ]  # fmt: skip
    try:
        outputs = [program.communicate(timeout=60 + 10 * moments)[0] for program in programs]
    finally:
        for program in programs:
            program.kill()
    for program, output in zip(programs, outputs, strict=True):
        print(output)
        assert program.returncode == 0, output[-6000:]
        assert f"{moments} of {moments} ended well" in output


amounts = pytest.mark.parametrize(
    ("moments", "programs"), [(FEW, 1), pytest.param(MANY, AT_ONCE, marks=pytest.mark.gpu_slow)]
)


@amounts
@pytest.mark.usefixtures("_idle_afterwards")
@pytest.mark.parametrize("way", ["stream", "host", pytest.param("staged", marks=pytest.mark.gpu_slow)])
def test_a_rank_that_ends_at_a_random_moment(
    monkeypatch: pytest.MonkeyPatch, way: str, moments: int, programs: int
) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    run_moments(moments, range(programs))


@amounts
@pytest.mark.usefixtures("mps", "_idle_afterwards")
@pytest.mark.parametrize("way", ["auto", "kernel", pytest.param("host", marks=pytest.mark.gpu_slow)])
def test_a_rank_that_ends_at_a_random_moment_with_mps(
    monkeypatch: pytest.MonkeyPatch, way: str, moments: int, programs: int
) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    run_moments(moments, range(programs))


@pytest.mark.usefixtures("mps", "_idle_afterwards")
def test_an_abort_ends_captured_graphs(world: World) -> None:
    output = world("cuda_graph_abort.py", timeout_s=60)[0]
    (took_s,) = re.findall(r"ended ([\d.]+) s after the abort: \[nan, nan\]", output)
    assert float(took_s) < 0.5
    assert "a later call raised" in output
