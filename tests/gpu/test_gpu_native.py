"""libcollective_core_cuda.so without torch: cuda_perf starts several ranks on one GPU and checks every result there."""

from __future__ import annotations

import re
import subprocess

import pytest
from collective_core.locations import library_path

pytestmark = pytest.mark.gpu

PROGRAM = library_path().parents[1] / "bin" / "cuda_perf"


def cuda_perf(*arguments: str, timeout_s: float = 60) -> str:
    """Run the program and return what it printed; it fails on a wrong element."""
    done = subprocess.run(
        (str(PROGRAM), *arguments), capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("path", ["auto", "host"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_collective_type_and_operator(path: str, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", path)
    # Without MPS, kernels that wait take 2 ms or more for an operation: the host path gets one size.
    sizes = "sizes=1000,3000000" if path == "auto" else "sizes=1000"
    assert "wrong 0" in cuda_perf("collectives", f"ranks={ranks}", sizes, "bytes=4000000")


@pytest.mark.parametrize(
    ("ranks", "given", "ways"),
    [
        (2, {}, {"gpu"}),
        (3, {"CCORE_CUDA_PATH": "host"}, {"gpu"}),
        (2, {"CCORE_CUDA_PATH": "staged"}, {"staged"}),
        (2, {"CCORE_INTRA_SIZE": "1"}, {"staged"}),
        (4, {"CCORE_INTRA_SIZE": "2", "CCORE_CUDA_PATH": "auto"}, {"staged", "2d_gpu"}),
    ],
)
def test_one_entry_for_every_memory(
    ranks: int, given: dict[str, str], ways: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The functions of collective_core.h compare device, managed and pinned memory with host memory."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    # 4.8 MB, from which on GPUs that are shared without MPS take part between nodes.
    output = cuda_perf("entry", f"ranks={ranks}", "sizes=5,1000,1200000", timeout_s=120)
    assert "wrong 0" in output
    taken = re.search(r"^# ways: (.*)$", output, re.MULTILINE)
    assert taken is not None
    assert {word for word in taken[1].split() if not word.isdigit()} == ways


@pytest.mark.gpu_slow
def test_fewer_elements_than_ranks_through_host_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", "host")
    # One to three elements, which are the block of rank 0, and 5 to 42, which end within a block.
    assert "wrong 0" in cuda_perf("collectives", "ranks=3", "sizes=1,40", timeout_s=120)


@pytest.mark.parametrize("ranks", [2, 4])
def test_random_operations_across_the_end_of_the_epochs(ranks: int) -> None:
    epoch = f"epoch={2**32 - 3}"
    assert "wrong 0" in cuda_perf("soak", f"ranks={ranks}", "operations=600", "limit=10", epoch)


@pytest.mark.gpu_alone
def test_freed_buffers_are_given_back() -> None:
    output = cuda_perf("churn", "ranks=2", "operations=1000", "limit=5")
    assert "wrong 0" in output
    missing = float(re.findall(r"([-\d.]+) MB missing at the end", output)[0])
    assert missing < 100


def test_captured_graphs() -> None:
    assert "wrong 0" in cuda_perf("graph", "ranks=2", "sizes=1024,1048576")


def test_threads_of_one_process_take_the_kernels() -> None:
    output = cuda_perf("collectives", "ranks=4", "threads=1", "sizes=1000,300000")
    assert "path kernel" in output
    assert "wrong 0" in output


@pytest.mark.gpu_alone
def test_faults_are_named_in_time() -> None:
    lines = cuda_perf("faults", "ranks=2", "timeout=300").splitlines()
    missing = [line for line in lines if line.startswith("missing: rank 1")]
    assert len(missing) == 2
    for line in missing:
        assert "timeout: the deadline passed in all_reduce" in line
        assert "waited for rank 0" in line
        assert 295 < float(re.findall(r"after ([\d.]+) ms", line)[0]) < 340
    for line in lines:
        if line.startswith("abort: rank 1"):
            assert "aborted: cc_cuda_abort was called on rank 1" in line
        if line.startswith("counts:"):
            assert "called all_reduce of" in line


@pytest.mark.gpu_alone
def test_a_killed_rank_ends_the_others() -> None:
    output = cuda_perf("killed", "ranks=2", "timeout=2000")
    assert "rank 1" in output
    assert "remote error" in output
