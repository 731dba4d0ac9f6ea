"""Tensors in torch's expandable segments, with two ranks on one GPU: their memory is exported as file descriptors."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.gpu_slow]

World = Callable[..., list[str]]
PROGRAM = "cuda_segments.py"
BY_DESCRIPTORS = "memory of cuMemCreate (expandable segments) by descriptors"


@pytest.fixture(autouse=True)
def _expandable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    monkeypatch.setenv("CCORE_CUDA_PATH", "auto")


def _description(outputs: list[str]) -> str:
    """Return the description of the paths, which all ranks have printed."""
    lines = {line for output in outputs for line in output.splitlines() if line.startswith("path ")}
    assert all(output.splitlines()[-1] == "done" for output in outputs)
    assert len(lines) == 1, lines
    return lines.pop()


def test_sums_in_segments(world: World) -> None:
    description = _description(world(PROGRAM, "sums"))
    assert description.startswith("path stream (")
    assert BY_DESCRIPTORS in description
    assert description.endswith("buffers of all ranks: by descriptors")


@pytest.mark.usefixtures("mps")
def test_sums_in_segments_with_mps(world: World) -> None:
    description = _description(world(PROGRAM, "sums"))
    assert description.startswith("path kernel (")
    assert description.endswith("buffers of all ranks: by descriptors")


def test_one_rank_switches_descriptors_off(world: World) -> None:
    description = _description(world(PROGRAM, "switched-off"))
    assert "(expandable segments) staged: rank 1: CCORE_CUDA_DESCRIPTORS is 0" in description
    assert "by descriptors" not in description


def test_memory_that_cannot_be_exported_is_staged_and_logged_once(world: World) -> None:
    outputs = world(PROGRAM, "refused")
    assert BY_DESCRIPTORS in _description(outputs)
    logged = (
        r"rank 0 stages \d+ bytes of memory of cuMemCreate: it was not created with a POSIX file descriptor"
    )
    assert [len(re.findall(logged, output)) for output in outputs] == [1, 1]
