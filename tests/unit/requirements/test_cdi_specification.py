"""Making a CDI specification and taking it back, run for real with a stand-in for nvidia-ctk."""

from __future__ import annotations

import os
import subprocess

import pytest

from clusterctl.requirements.containers import cdi_specification

DRIVER = "580.95.05"
OLD = "kind: nvidia.com/gpu\ncontainerPath: /usr/lib/libcuda.so.550.54.15\n"
NEW = f"kind: nvidia.com/gpu\ncontainerPath: /usr/lib/libcuda.so.{DRIVER}\n"


@pytest.fixture
def run(tmp_path):
    tool = tmp_path / "bin" / "nvidia-ctk"
    tool.parent.mkdir()
    tool.write_text(
        f"#!/bin/sh\n[ ! -e '{tmp_path}/broken' ] || exit 1\nprintf '%s' '{NEW}' >\"${{3#--output=}}\"\n"
    )
    tool.chmod(0o755)
    env = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    path = tmp_path / "cdi" / "nvidia.yaml"

    def of(script):
        argv = ("sh", "-c", script, "x", str(path), DRIVER)
        return subprocess.run(argv, env=env, capture_output=True, timeout=30, check=False).returncode

    of.path = path
    return of


def _state(folder):
    return {p.name: p.read_text() for p in folder.iterdir()} if folder.is_dir() else None


@pytest.mark.parametrize("before", [None, OLD], ids=["absent", "stale"])
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_undo_brings_back_what_was_there(run, before, times):
    if before is not None:
        run.path.parent.mkdir()
        run.path.write_text(before)
    was = _state(run.path.parent)
    assert run(cdi_specification.FITS) != 0
    for _ in range(times):  # As after a crash in the middle.
        assert run(cdi_specification.GENERATE) == 0
    assert run(cdi_specification.FITS) == 0
    assert run.path.read_text() == NEW
    for _ in range(times):
        assert run(cdi_specification.RESTORE) == 0
    assert _state(run.path.parent) == was


def test_a_tool_that_fails_is_a_failure_and_can_be_taken_back(run, tmp_path):
    run.path.parent.mkdir()
    run.path.write_text(OLD)
    (tmp_path / "broken").touch()
    assert run(cdi_specification.GENERATE) != 0
    assert run(cdi_specification.RESTORE) == 0
    assert _state(run.path.parent) == {"nvidia.yaml": OLD}


def test_undo_without_a_change_touches_nothing(run):
    run.path.parent.mkdir()
    run.path.write_text(OLD)
    assert run(cdi_specification.RESTORE) == 0
    assert _state(run.path.parent) == {"nvidia.yaml": OLD}
