"""``version``: what is installed, as text and as a document."""

from __future__ import annotations

import json
import platform
import sys
from importlib import util
from pathlib import Path
from types import SimpleNamespace

import pytest

import clusterctl
from clusterctl.cli import main as cli


def test_versions_are_those_of_this_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["version", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["clusterctl"] == clusterctl.__version__
    assert found["python"]["version"] == platform.python_version()
    assert found["packages"]["paramiko"] and found["packages"]["typer"]
    parts = {part["name"]: part["path"] for part in found["collective_core"]["parts"]}
    assert Path(parts["libcollective_core.so"]).is_file()
    assert "all_reduce_perf" in found["collective_core"]["programs"]
    assert cli.main(["version"]) == 0
    text = capsys.readouterr().out
    assert ["paramiko", found["packages"]["paramiko"]] in [line.split() for line in text.splitlines()]
    assert parts["libcollective_core.so"] in text


def test_what_is_missing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lib").mkdir()
    bare = SimpleNamespace(__file__=str(tmp_path / "__init__.py"), __version__="9", __spec__=object())
    monkeypatch.setitem(sys.modules, "collective_core", bare)
    assert cli.main(["version"]) == 0
    missing = [line.split() for line in capsys.readouterr().out.splitlines() if line.endswith("not built")]
    assert ["collectives", "not", "built"] in missing and ["programs", "not", "built"] in missing
    monkeypatch.setattr(util, "find_spec", lambda _: None)
    assert cli.main(["version"]) == 0
    assert "collective_core  not installed\n" in capsys.readouterr().out
