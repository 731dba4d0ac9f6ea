"""The workflows of CI: they parse, and every clusterctl line in them is one that clusterctl takes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import collective_core
from clusterctl import __version__
from clusterctl.cli import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.yml"))


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", ())]


def clusterctl_lines(workflow: dict[str, Any]) -> list[list[str]]:
    lines = [
        shlex.split(line)
        for step in steps(workflow)
        for line in step.get("run", "").replace("\\\n", " ").splitlines()
    ]
    return [words for words in lines if words and Path(words[0]).name == "clusterctl"]


def load(name: str) -> dict[str, Any]:
    (path,) = [path for path in WORKFLOWS if path.name == name]
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_what_every_workflow_needs(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job.keys() & {"permissions"} <= ({"permissions"} if name == "publish" else set())
        if job.keys() == {"uses"}:
            assert (path.parents[2] / job["uses"]).is_file()
            continue
        assert job["timeout-minutes"] <= 90
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
    # YAML 1.1 reads the key "on" as true.
    assert workflow[True]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_is_named_by_a_commit_and_its_version(path: Path) -> None:
    """A tag can be moved to another commit; a line with a commit is changed only here."""
    lines = [line.partition("uses:")[2].strip() for line in path.read_text().splitlines() if "uses:" in line]
    lines = [line for line in lines if not line.startswith("./")]
    assert len(lines) == len([step for step in steps(yaml.safe_load(path.read_text())) if "uses" in step])
    for line in lines:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_one_action_has_one_version() -> None:
    used = {
        step["uses"]
        for path in WORKFLOWS
        for step in steps(yaml.safe_load(path.read_text()))
        if "uses" in step
    }
    assert len({action.partition("@")[0] for action in used}) == len(used)


def test_units_are_tested_on_every_python_that_is_supported() -> None:
    project = tomllib.loads((WORKFLOWS[0].parents[2] / "pyproject.toml").read_text())["project"]
    versions = load("ci.yml")["jobs"]["unit"]["strategy"]["matrix"]["python"]
    assert f">={versions[0]}" == project["requires-python"]
    listed = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    assert versions == listed == [f"3.{minor}" for minor in range(10, 10 + len(versions))]


def test_only_a_release_of_this_version_is_published_and_by_no_token() -> None:
    workflow = load("release.yml")
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    publish = workflow["jobs"]["publish"]
    assert publish["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    assert publish["environment"] == "pypi" and sorted(publish["needs"]) == ["ci", "sdist", "wheel"]
    assert workflow["jobs"]["ci"] == {"uses": "./.github/workflows/ci.yml"}
    assert "workflow_call" in load("ci.yml")[True]
    assert "secrets." not in (WORKFLOWS[0].parent / "release.yml").read_text()


def test_a_release_is_built_by_known_versions() -> None:
    constraints = (WORKFLOWS[0].parents[1] / "build-constraints.txt").read_text().splitlines()[1:]
    assert all(re.fullmatch(r"[\w-]+==[0-9.]+", line) for line in constraints)
    job = load("release.yml")["jobs"]["sdist"]
    assert job["env"]["PIP_CONSTRAINT"].endswith("/.github/build-constraints.txt")
    lines = [step["run"] for step in job["steps"] if step.get("run", "").startswith("pipx")]
    (build,) = [line for line in constraints if line.startswith("build==")]
    assert lines and all(line.startswith(f"pipx run {build}") for line in lines)


def test_every_place_has_the_same_version() -> None:
    root = WORKFLOWS[0].parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    core = tomllib.loads((root / "collective_core/pyproject.toml").read_text())["project"]
    cmake = (root / "collective_core" / "CMakeLists.txt").read_text()
    assert project["version"] == core["version"] == __version__ == collective_core.__version__
    assert f"project(collective_core VERSION {__version__} " in cmake
    assert project["optional-dependencies"]["core"] == [f"collective_core=={__version__}"]


def test_both_distributions_have_the_same_licence_and_pythons() -> None:
    root = WORKFLOWS[0].parents[2]
    files = (root / "pyproject.toml", root / "collective_core/pyproject.toml")
    both = [tomllib.loads(file.read_text())["project"] for file in files]
    assert both[0]["requires-python"] == both[1]["requires-python"]
    versions = [[line for line in found["classifiers"] if "Python :: 3." in line] for found in both]
    assert versions[0] == versions[1]
    assert (root / "LICENSE").read_bytes() == (root / "collective_core/LICENSE").read_bytes()


@pytest.mark.parametrize(("tag", "code"), [("v{version}", 0), ("v{version}1", 1), ("{version}.0", 1)])
def test_a_tag_of_another_version_ends_the_release(tag: str, code: int) -> None:
    root = WORKFLOWS[0].parents[2]
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    (compare,) = [s for s in load("release.yml")["jobs"]["sdist"]["steps"] if "version" in s.get("name", "")]
    environment = {"PATH": os.environ["PATH"], "GITHUB_REF_NAME": tag.format(version=version)}
    done = subprocess.run(
        ("bash", "-ec", compare["run"]),
        cwd=root,
        env=environment,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == code


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


def test_the_gpu_runner_needs_no_cuda_compiler_of_its_own() -> None:
    scripts = [step["run"] for step in steps(load("gpu-smoke.yml")) if "run" in step]
    (install,) = [script for script in scripts if "./collective_core" in script]
    compiler = install.index("install_cuda_compiler.py build/cuda")
    assert compiler < install.index("CUDACXX=") < install.index("CCORE_CUDA=ON")


def test_strangers_get_nothing_run_on_the_gpu_runner() -> None:
    workflow = load("gpu-smoke.yml")
    assert "self-hosted" in workflow["jobs"]["smoke"]["runs-on"]
    assert not {"pull_request", "pull_request_target"} & set(workflow[True])
