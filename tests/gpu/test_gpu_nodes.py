"""CUDA tensors between emulated nodes of one machine: torch's all_reduce, and Horovod's optimizer with top-k."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.gpu

World = Callable[..., list[str]]


@pytest.mark.parametrize("size", [4, 3])  # two nodes of two ranks; of two and one
@pytest.mark.parametrize("path", ["", "auto"])
def test_all_reduce_sums_on_the_gpus_of_a_node_first(
    world: World, monkeypatch: pytest.MonkeyPatch, path: str, size: int
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", "2")
    monkeypatch.setenv("CCORE_CUDA_PATH", path)
    for output in world("torch_nodes.py", "gpus", size=size, timeout_s=400):
        assert "inside nodes by" in output
        assert re.search(r"all_reduce by 2d_gpu: [1-9]", output)
        assert output.splitlines()[-1] == "done"


@pytest.mark.usefixtures("mps")
def test_all_reduce_with_mps_takes_kernels_inside_the_nodes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", "2")
    for output in world("torch_nodes.py", "gpus", size=4, timeout_s=400):
        assert "inside nodes by kernel" in output
        assert output.splitlines()[-1] == "done"


@pytest.mark.parametrize(("name", "value"), [("CCORE_CUDA_PATH", "staged")])
def test_all_reduce_stays_on_the_cpus_if_asked(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", "2")
    monkeypatch.setenv(name, value)
    for output in world("torch_nodes.py", "cpus", size=4, timeout_s=400):
        assert output.splitlines()[-2:] == ["all_reduce by 2d_gpu: 0", "done"]


def test_a_killed_rank_is_an_error_on_every_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", "2")
    # The other ranks, which the fixture compares first, must have ended with their error and not at its limit.
    with pytest.raises(AssertionError, match="rank 3 ended with -9"):
        world("torch_nodes.py", "gpus", "killed", size=4, timeout_s=60)


@pytest.mark.parametrize(("size", "per_node"), [(2, 1), (4, 1), (4, 2)])
@pytest.mark.parametrize("path", ["", "auto"])
def test_horovods_top_k_is_selected_on_the_gpu(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int, per_node: int, path: str
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", str(per_node))
    monkeypatch.setenv("CCORE_CUDA_PATH", path)
    for output in world("horovod_topk.py", size=size, timeout_s=300):
        assert "selected on the GPU: 12" in output
        assert output.splitlines()[-2:] == ["joined", "done"]
