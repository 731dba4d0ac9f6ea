"""The workflows of CI: they parse, and every clusterctl line in them is one that clusterctl takes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from clusterctl.cli import main

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.yml"))


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def clusterctl_lines(workflow: dict[str, Any]) -> list[list[str]]:
    lines = [shlex.split(line) for step in steps(workflow) for line in step.get("run", "").splitlines()]
    return [words for words in lines if words and Path(words[0]).name == "clusterctl"]


def load(name: str) -> dict[str, Any]:
    (path,) = [path for path in WORKFLOWS if path.name == name]
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_what_every_workflow_needs(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
    # YAML 1.1 reads the key "on" as true.
    assert workflow[True]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_clusterctl_line_is_one_that_it_takes(path: Path) -> None:
    command = typer.main.get_command(main.application())
    for words in clusterctl_lines(yaml.safe_load(path.read_text())):
        verb = command.commands[words[1]]  # type: ignore[attr-defined]
        # Parsed as the real command parses it, and not run.
        verb.make_context(words[1], words[2:])


def test_the_gpu_runner_is_called_with_the_smoke_benchmark() -> None:
    workflow = load("gpu-smoke.yml")
    (words,) = clusterctl_lines(workflow)
    assert words[1:3] == ["bench", "--smoke"]
    junit = words[words.index("--junit") + 1]
    (upload,) = [s for s in steps(workflow) if s.get("uses", "").startswith("actions/upload-artifact@")]
    assert junit in upload["with"]["path"].split()
    assert upload["if"] == "always()"


def test_strangers_get_nothing_run_on_the_gpu_runner() -> None:
    workflow = load("gpu-smoke.yml")
    assert "self-hosted" in workflow["jobs"]["smoke"]["runs-on"]
    assert not {"pull_request", "pull_request_target"} & set(workflow[True])
