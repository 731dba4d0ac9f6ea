"""What is suggested for mistyped options, libraries, launchers and models."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterctl.cli import main as cli
from clusterctl.cli.options import names, requirement_names
from clusterctl.text.closest import closest, spelled


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("AllReduce", ["all_reduce"]),
        ("reduce-scatter", ["reduce_scatter"]),
        ("nccl ccore", ["nccl+ccore"]),
        ("allgater", ["all_gather"]),
        ("xyz", []),
        ("redu", ["reduce_scatter", "all_reduce"]),
        ("re", []),
    ],
)
def test_case_and_punctuation_do_not_count(word: str, expected: list[str]) -> None:
    assert closest(word, ("all_reduce", "all_gather", "reduce_scatter", "nccl", "nccl+ccore")) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("AllReduce", "all_reduce"),
        ("all-gather", "all_gather"),
        ("NCCL", "nccl"),
        ("NCCL Ccore", "nccl+ccore"),
        ("allgater", "allgater"),
        ("A-B", "A-B"),
        ("a-b", "a-b"),
    ],
)
def test_a_name_is_accepted_in_any_case_and_punctuation_if_it_means_one(word: str, expected: str) -> None:
    assert spelled(word, ("all_reduce", "all_gather", "nccl", "nccl+ccore", "a-b", "a_b")) == expected


def test_requirements_are_named_with_dashes_or_underscores() -> None:
    assert requirement_names(["time_sync,memlock", "SSH_mesh"]) == ("time-sync", "memlock", "ssh-mesh")
    assert names(["time_sync"]) == ("time_sync",)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bench --model resent50", "did you mean resnet50 or"),
        ("bench --library ncll", "did you mean nccl?"),
        ("bench --launcher openpmi", "did you mean openmpi?"),
        ("render mpirun --slots 2 --collective AllReduc", "did you mean all_reduce or"),
        ("results list", "hint: its commands are in 'runs': clusterctl runs -h"),
        ("runs list --status below_baseline", "did you mean below-baseline?"),
        ("accept --tier perf", "did you mean performance?"),
        ("inventory import x --from hostfil", "did you mean hostfile?"),
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


@pytest.mark.parametrize(
    ("name", "meant"), [("LATEST", "latest"), ("launch.log", "logs/launcher.log"), ("other", None)]
)
def test_a_log_that_is_not_there_may_mean_another(
    name: str,
    meant: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/launcher.log").touch()
    monkeypatch.chdir(tmp_path)
    assert cli.main(["explain", name if meant == "latest" else f"logs/{name}"]) == 3
    said = f"did you mean {meant}? " if meant else ""
    assert f"hint: {said}check that the file is a log" in capsys.readouterr().err


def test_nothing_is_suggested_for_nonsense(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--xyz"]) == 2
    shown = capsys.readouterr().err
    assert "Possible" not in shown and "hint" not in shown
