"""CUDA tensors between emulated nodes of one machine: torch's all_reduce, and Horovod's optimizer with top-k."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_slow]

World = Callable[..., list[str]]


# Two nodes of two ranks; of two and one.
@pytest.mark.parametrize("size", [4, 3])
def test_all_reduce_sums_on_the_gpus_of_a_node_first(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", "2")
    monkeypatch.setenv("CCORE_CUDA_PATH", "auto")
    for output in world("torch_nodes.py", "gpus", size=size, timeout_s=400):
        assert "inside nodes by" in output
        assert re.search(r"all_reduce by 2d_gpu: [1-9]", output)
        assert output.splitlines()[-1] == "done"


@pytest.mark.usefixtures("mps")
def test_all_reduce_with_mps_takes_kernels_inside_the_nodes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", "2")
    monkeypatch.setenv("CCORE_CUDA_PATH", "auto")
    for output in world("torch_nodes.py", "gpus", size=4, timeout_s=400):
        assert "inside nodes by kernel" in output
        assert output.splitlines()[-1] == "done"


@pytest.mark.parametrize("path", ["", "staged", "host"])
def test_all_reduce_stays_on_the_cpus_unless_asked(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", "2")
    monkeypatch.setenv("CCORE_CUDA_PATH", path)
    for output in world("torch_nodes.py", "cpus", size=4, timeout_s=400):
        assert output.splitlines()[-2:] == ["all_reduce by 2d_gpu: 0", "done"]


def test_a_killed_rank_is_an_error_on_every_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", "2")
    monkeypatch.setenv("CCORE_CUDA_PATH", "auto")
    outputs = world("torch_nodes.py", "gpus", "killed", size=4, timeout_s=120, ends={3: -signal.SIGKILL})
    for output in outputs[:3]:
        (took_s,) = re.findall(r"after ([\d.]+) s", output)
        assert float(took_s) < 15.0, output  # the deadline is 10 s


@pytest.mark.parametrize(
    ("path", "size", "per_node"), [("", 2, 1), ("", 4, 1), ("", 4, 2), ("auto", 4, 2), ("staged", 2, 1)]
)
def test_horovods_top_k_is_selected_on_the_gpu(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str, size: int, per_node: int
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", str(per_node))
    monkeypatch.setenv("CCORE_CUDA_PATH", path)
    where = "cpus" if path == "staged" else "gpus"
    for output in world("horovod_topk.py", where, size=size, timeout_s=300):
        assert f"selected on the GPU: {0 if path == 'staged' else 12}," in output
        assert output.splitlines()[-2:] == ["joined", "done"]
