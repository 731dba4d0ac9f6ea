"""The backend ccore on CUDA tensors, with several ranks on one GPU: every call, training, faults."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

World = Callable[..., list[str]]


slow = pytest.mark.gpu_slow
# The default path, which the ranks choose, and copies through host memory.
ways = pytest.mark.parametrize("way", ["auto", pytest.param("staged", marks=slow)])
sizes = pytest.mark.parametrize("elements", [1000, pytest.param(3_000_000, marks=slow)])


@pytest.mark.parametrize(
    ("way", "size"),
    [
        ("staged", 2),
        ("host", 2),
        pytest.param("staged", 1, marks=slow),
        pytest.param("auto", 1, marks=slow),
        pytest.param("auto", 4, marks=slow),
    ],
)
def test_collectives(world: World, monkeypatch: pytest.MonkeyPatch, way: str, size: int) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    assert all(output.splitlines()[-1] == "done" for output in world("cuda_collectives.py", size=size))


def test_by_default_tensors_stay_on_the_gpu(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CCORE_CUDA_PATH", raising=False)
    outputs = world("cuda_collectives.py")
    assert all(output.splitlines()[-1] == "done" for output in outputs)
    # Two processes share the GPU: by streams without MPS, by kernels if the machine runs MPS.
    assert all(re.search(r"path (stream|kernel) \(", output.splitlines()[-2]) for output in outputs), outputs


@pytest.mark.usefixtures("mps")
@pytest.mark.parametrize(
    ("way", "says"),
    [
        (
            "auto",
            "path kernel (every pair has peer access, and ranks of one GPU run at the same time; outside of",
        ),
        ("kernel", "path kernel (as requested)"),
        ("host", "path host"),
    ],
)
def test_collectives_with_mps(world: World, monkeypatch: pytest.MonkeyPatch, way: str, says: str) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    outputs = world("cuda_collectives.py")
    assert all(output.splitlines()[-1] == "done" for output in outputs)
    assert all(says in output.splitlines()[-2] for output in outputs)


@pytest.mark.usefixtures("mps")
def test_a_rank_that_waits_leaves_the_gpu_to_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CCORE_CUDA_PATH", raising=False)
    outputs = world("cuda_beside_full_kernels.py")
    assert all(output.splitlines()[-1] == "done" for output in outputs), outputs


@ways
@pytest.mark.parametrize("kind", ["ddp", pytest.param("compiled", marks=slow), "fsdp2"])
def test_training_equals_a_single_process(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str, kind: str
) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    (alone,) = _results(world("cuda_training.py", "alone", kind, size=1))
    one, other = _results(world("cuda_training.py", "ccore", kind))
    assert one["parameters"] == other["parameters"]  # to the last bit
    for got, wanted in zip(one["parameters"], alone["parameters"], strict=True):
        assert got == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@slow
@ways
@pytest.mark.parametrize("kind", ["fp16", "topk", "tuned"])
def test_hooks_and_bucket_tuning_keep_the_replicas_equal(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str, kind: str
) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    one, other = _results(world("cuda_training.py", "ccore", kind))
    assert one["parameters"] == other["parameters"]
    assert one["losses"][-1] < 0.9 * one["losses"][0]


@ways
def test_horovod(world: World, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    assert all("cuda node" in output for output in world("../../core/programs/horovod_cuda.py"))


@sizes
@pytest.mark.parametrize(
    ("way", "fault", "named"),
    [
        # Small data is copied before the operation, large data by it.
        ("staged", "stuck", "did not finish the work|did not end within its timeout"),
        ("auto", "stuck", "rank 0"),
        ("auto", "missing", "rank 1"),
        ("auto", "counts", "all_reduce of"),
    ],
)
def test_a_fault_is_a_named_error_by_the_deadline(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str, fault: str, named: str, elements: int
) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    outputs = world("cuda_faults.py", fault, str(elements))
    assert any(re.search(named, output) for output in outputs), outputs
    waiting = outputs[0 if fault == "missing" else 1]
    took_s = float(re.findall(r"after ([\d.]+) s", waiting)[-1])
    assert took_s < (1.0 if fault == "counts" else 5.0)


@ways
@sizes
def test_a_killed_rank_is_an_error_on_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str, elements: int
) -> None:
    monkeypatch.setenv("CCORE_CUDA_PATH", way)
    with pytest.raises(AssertionError, match="rank 1 ended with -9"):
        world("cuda_faults.py", "killed", str(elements))


def _results(outputs: list[str]) -> list[dict[str, Any]]:
    return [json.loads(output.splitlines()[-1]) for output in outputs]
