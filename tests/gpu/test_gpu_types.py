"""8-bit floats on CUDA tensors: two ranks on one GPU, every pair of patterns, operator and way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_slow]

World = Callable[..., list[str]]
# Checks of a rank: types, operators, sizes, and what is checked of each; with PREMUL_SUM of each type.
CHECKS = 2 * (5 * 8 * 4 + 1)


def expect_right_results(world: World, path: str) -> None:
    for output in world("../../core/programs/torch_float8.py", "cuda"):
        *_, taken, checked = output.splitlines()
        assert taken == path
        assert checked == f"{CHECKS} checks"


@pytest.mark.parametrize(("way", "path"), [("staged", "staged"), ("auto", "stream"), ("host", "host")])
def test_float8(world: World, monkeypatch: pytest.MonkeyPatch, way: str, path: str) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    expect_right_results(world, path)


@pytest.mark.usefixtures("mps")
@pytest.mark.parametrize("way", ["kernel", "host"])
def test_float8_with_mps(world: World, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    expect_right_results(world, way)
