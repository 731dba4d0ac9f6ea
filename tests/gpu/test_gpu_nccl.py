"""collective_core in front of NCCL, with two ranks on one GPU; and the comparison through the installed command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

World = Callable[..., list[str]]


def _results(outputs: list[str]) -> list[dict[str, Any]]:
    return [json.loads(output.splitlines()[-1]) for output in outputs]


@pytest.mark.parametrize(
    "kind", ["ddp", *(pytest.param(kind, marks=pytest.mark.gpu_slow) for kind in ("fsdp2", "compiled"))]
)
def test_training_gives_the_same_parameters_through_every_library(world: World, kind: str) -> None:
    alone = _results(world("nccl_training.py", "nccl", kind))
    behind = _results(world("nccl_training.py", "nccl+ccore", kind))
    ccore = _results(world("nccl_training.py", "ccore", kind))
    assert len({result["parameters"] for result in (*alone, *behind, *ccore)}) == 1
    assert [result["sums"] for result in (*alone, *behind)] == [[3.0, 3.0, 3.0]] * 4
    for result in behind:
        (communicator, *_) = result["report"]["communicators"]
        assert communicator["why"] is None
        counts = result["report"]["functions"]
        assert counts["ncclAllReduce"]["taken"] > 0
        assert kind != "fsdp2" or counts["ncclReduceScatter"]["taken"] > 0


def test_off_by_one_variable(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCORE_NCCL", "0")
    for result in _results(world("nccl_training.py", "nccl+ccore", "ddp")):
        assert result["report"]["functions"]["ncclAllReduce"]["taken"] == 0
        assert result["report"]["communicators"] == []


@pytest.mark.gpu_slow  # make gpu runs gpu_one.py, which does the same
def test_the_command_compares_the_libraries_on_one_gpu(tmp_path: Path) -> None:
    words = (
        sys.executable, "-m", "clusterctl.cli.main", "bench", "--json", "--launcher", "local", "--oversubscribe",
        "-np", "2", "--compare", "nccl,ccore,nccl+ccore,gloo", "--repeats", "1", "-b", "4K", "-e", "1M", "-f", "16",
        "-n", "5", "-w", "2", "--runs", str(tmp_path),
    )  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    nccl, ccore, behind, gloo = result["variants"]
    for variant in result["variants"]:
        assert [row["wrong"] for row in variant["rows"]] == [0, 0, 0]
        assert variant["proof"]["sharing"].startswith("2")
    assert "NCCL" in nccl["proof"]["sharing"]
    assert [path["rank"] for path in ccore["proof"]["paths"]] == [0, 1]
    assert all(path["taken"]["ncclAllReduce"] > 0 for path in behind["proof"]["paths"])
    assert all(row["ratio"] > 0 for variant in (ccore, behind, gloo) for row in variant["rows"])
