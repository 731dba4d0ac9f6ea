"""Top-k on the GPU: selection, sums, and the all_reduce that uses both."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_slow]


def test_selections_and_sums_are_those_of_torch(world: Callable[..., list[str]]) -> None:
    (output,) = world("cuda_topk.py", size=1, timeout_s=300)
    assert output.splitlines()[-1] == "done"


@pytest.mark.parametrize(("size", "per_node"), [(2, 1), (4, 2), (3, 2)])
def test_nodes_agree_with_the_library_for_the_host(
    world: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, size: int, per_node: int
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", str(per_node))
    assert all(output.splitlines()[-1] == "done" for output in world("cuda_nodes.py", size=size))


def test_a_killed_rank_is_an_error_on_the_others(
    world: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCORE_INTRA_SIZE", "1")
    with pytest.raises(AssertionError, match="rank 2 ended with -9"):
        world("cuda_nodes.py", "killed", size=3)


def test_the_hook_trains_between_nodes(
    world: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHT_INTRA_SIZE", "1")
    one, other = (
        json.loads(output.splitlines()[-1]) for output in world("cuda_training.py", "ccore", "topk")
    )
    assert one["parameters"] == other["parameters"]
    assert one["losses"][-1] < 0.9 * one["losses"][0]
