"""The backend ccore on CUDA tensors, with several ranks on one GPU: every call, training, faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

World = Callable[..., list[str]]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_collectives(world: World, size: int) -> None:
    assert all(output.splitlines()[-1] == "done" for output in world("cuda_collectives.py", size=size))


def test_collectives_through_host_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", "host")
    assert all(output.splitlines()[-1] == "done" for output in world("cuda_collectives.py"))


@pytest.mark.parametrize("kind", ["ddp", "compiled", "fsdp2"])
def test_training_equals_a_single_process(world: World, kind: str) -> None:
    (alone,) = _results(world("cuda_training.py", "alone", kind, size=1))
    one, other = _results(world("cuda_training.py", "ccore", kind))
    assert one["parameters"] == other["parameters"]  # to the last bit
    for got, wanted in zip(one["parameters"], alone["parameters"], strict=True):
        assert got == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("hook", ["fp16", "topk"])
def test_hooks_keep_the_replicas_equal_and_train(world: World, hook: str) -> None:
    one, other = _results(world("cuda_training.py", "ccore", hook))
    assert one["parameters"] == other["parameters"]
    assert one["losses"][-1] < 0.9 * one["losses"][0]


# The smaller one passes through host memory, the larger one stays in the memory of the GPU.
@pytest.mark.parametrize(
    ("elements", "named"), [(1000, "cuda:0 did not finish the work"), (3_000_000, "had queued before")]
)
def test_a_gpu_that_hangs_ends_the_call_at_its_deadline(world: World, elements: int, named: str) -> None:
    stuck, waiting = world("cuda_faults.py", "stuck", str(elements))
    assert named in stuck
    for output in (stuck, waiting):
        assert 2.5 < float(re.findall(r"after ([\d.]+) s", output)[-1]) < 5.0
    if elements > 1000:
        assert "waiting for rank 0" in waiting


@pytest.mark.parametrize("elements", [1000, 3_000_000])
def test_a_killed_rank_is_an_error_on_the_other(world: World, elements: int) -> None:
    with pytest.raises(AssertionError, match="rank 1 ended with -9"):
        world("cuda_faults.py", "killed", str(elements))


def _results(outputs: list[str]) -> list[dict[str, Any]]:
    return [json.loads(output.splitlines()[-1]) for output in outputs]
