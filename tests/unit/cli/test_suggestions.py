"""What is suggested for mistyped options, libraries, launchers and models."""

from __future__ import annotations

import pytest

from clusterctl.cli import main as cli
from clusterctl.closest import closest


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("AllReduce", ["all_reduce"]),
        ("reduce-scatter", ["reduce_scatter"]),
        ("nccl ccore", ["nccl+ccore"]),
        ("allgater", ["all_gather"]),
        ("xyz", []),
    ],
)
def test_case_and_punctuation_do_not_count(word: str, expected: list[str]) -> None:
    assert closest(word, ("all_reduce", "all_gather", "reduce_scatter", "nccl", "nccl+ccore")) == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bench --model ResNet50", "did you mean resnet50?"),
        ("bench --library NCCL", "did you mean nccl?"),
        ("bench --launcher OpenMPI", "did you mean openmpi?"),
        ("render mpirun --slots 2 --collective AllReduce", "did you mean all_reduce?"),
        ("results list --status below_baseline", "did you mean below-baseline?"),
        ("bench --dryrun", "(Possible options: --dry-run)"),
        ("bench --batchsize 3", "(Possible options: --batch-size)"),
        ("check --junitxml x", "(Possible options: --junit)"),
        ("check --resume x", "hint: --resume is an option of: bootstrap"),
        ("check --local", "hint: --local is an option of: bootstrap"),
        (
            "inventory show a.yaml n1",
            "hint: give the inventory with -i: clusterctl inventory show -i INVENTORY NODE",
        ),
        ("check --batch-size x", "hint: --batch-size is an option of: bench, render mpirun"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line.split()) == 2
    assert said in capsys.readouterr().err
    assert cli.main([*line.split(), "--json"]) == 2


def test_nothing_is_suggested_for_nonsense(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--xyz"]) == 2
    shown = capsys.readouterr().err
    assert "Possible" not in shown and "hint" not in shown
