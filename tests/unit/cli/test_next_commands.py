"""The command that follows a benchmark, and one that follows the build of an image."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clusterctl.cli.bench.run import say_next
from clusterctl.cli.image.build import _has_registry
from clusterctl.documents.bench import BenchStatus
from clusterctl.views.next_step import Way

WAY = Way(("fleet.yaml", "--limit", "gpu*"), has_bench=True)


def ended(status: BenchStatus, nodes: int = 2) -> Any:
    return SimpleNamespace(result=SimpleNamespace(status=status), nodes=[object()] * nodes)


@pytest.mark.parametrize(
    ("runs", "command"),
    [
        ([ended(BenchStatus.OK)], "clusterctl accept fleet.yaml --limit 'gpu*'  # "),
        ([ended(BenchStatus.NOT_JUDGED), ended(BenchStatus.OK)], "clusterctl accept "),
        (
            [ended(BenchStatus.OK), ended(BenchStatus.DOUBTFUL)],
            "clusterctl locate fleet.yaml --limit 'gpu*'  # ",
        ),
        ([ended(BenchStatus.BELOW_BASELINE)], "clusterctl locate "),
        ([ended(BenchStatus.BELOW_BASELINE, nodes=1)], "clusterctl accept "),
    ],
)
def test_a_benchmark_names_the_command_that_follows(
    capsys: pytest.CaptureFixture[str], runs: list[Any], command: str
) -> None:
    say_next(runs, WAY)
    assert capsys.readouterr().err.startswith(f"Next: {command}")


@pytest.mark.parametrize("runs", [[], [ended(BenchStatus.OK), ended(BenchStatus.FAILED)]])
def test_a_failed_benchmark_names_none(capsys: pytest.CaptureFixture[str], runs: list[Any]) -> None:
    say_next(runs, WAY)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("registry.local/train:1", True),
        ("jump:5000/train", True),
        ("localhost/train:1", True),
        ("train:1", False),
        ("team/train:1", False),
    ],
)
def test_an_image_with_a_registry_can_be_pushed(image: str, registry: bool) -> None:
    assert _has_registry(image) is registry
