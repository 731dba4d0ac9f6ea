"""The tuner in front of NCCL, with two ranks on one GPU under MPS: choices, results, the cache, and the switch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_slow, pytest.mark.usefixtures("mps")]

World = Callable[..., list[str]]
SIZES = (1 << 10, 64 << 10, 4 << 20)
CANDIDATES = {"nccl", "packets", "buffers"}


@pytest.fixture(autouse=True)
def _on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_AUTOTUNE", "1")


def tuned(world: World, timeout_s: float = 150.0) -> list[dict[str, Any]]:
    outputs = world("nccl_tuning.py", *map(str, SIZES), timeout_s=timeout_s)
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def by_size(result: dict[str, Any]) -> dict[int, str]:
    """Return who was chosen for all_reduce of fp32, by the power of two."""
    return {
        choice["size_class"]: choice["by"]
        for choice in result["report"]["choices"]
        if choice["collective"] == "all_reduce" and choice["size_class"] >= 10
    }


def test_both_ranks_choose_alike_and_every_sum_is_right(world: World) -> None:
    first, second = tuned(world)  # the program checks each sum before, during and after the competition
    assert first["report"]["without_tuner"] is None
    assert by_size(first) == by_size(second)
    assert set(by_size(first)) == {size.bit_length() - 1 for size in SIZES}
    assert set(by_size(first).values()) <= CANDIDATES
    assert [row["calls"] for row in first["rows"]] == [row["calls"] for row in second["rows"]]
    assert all(row["calls"] < 600 for row in first["rows"])
    for choice in first["report"]["choices"]:
        assert not choice["kept"]
        assert choice["first_us"] > 0
        # NCCL stays unless another is faster by more than noise.
        assert choice["by"] == "nccl" or choice["us"] < 0.97 * choice["first_us"]


def test_a_second_job_takes_the_kept_choices(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCORE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CCORE_CACHE_DISABLE", "0")
    monkeypatch.setenv("CCORE_CACHE_UPDATE_DISABLE", "0")
    first = tuned(world)[0]
    (kept,) = (tmp_path / "cache").glob("cuda-*.txt")
    monkeypatch.setenv("CCORE_AUTOTUNE_WARMUP_CALLS", "100000")  # what is not kept stays undecided
    for result in _without_settling(world):
        assert by_size(result) == by_size(first)
        assert all(choice["kept"] for choice in result["report"]["choices"])
    kept.write_text(kept.read_text().replace("all_reduce", "all_gather", 1))
    monkeypatch.setenv("CCORE_DEBUG", "WARN")
    outputs = world("nccl_tuning.py", timeout_s=120)
    assert sum("is ignored and will be replaced" in output for output in outputs) == 1
    assert by_size(json.loads(outputs[0].splitlines()[-1])) == {}


def _without_settling(world: World) -> list[dict[str, Any]]:
    outputs = world("nccl_tuning.py", timeout_s=120)
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def test_off_by_one_variable(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_AUTOTUNE", "0")
    for result in tuned(world):
        assert result["report"]["choices"] == []
        counts = result["report"]["functions"]["ncclAllReduce"]
        assert counts["taken"] > 0  # by the table
