"""``clusterctl render`` writes these texts, character by character; a new case is a new file in ``render/``.

A case holds an inventory, the words after ``clusterctl render``, and what comes out. The cases named after a
guide reproduce the line that the guide prints.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from clusterctl.cli.render.app import app

CASES = sorted((Path(__file__).parent / "render").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_render_is_the_golden_text(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(case["inventory"], encoding="utf-8")
    monkeypatch.setenv("CLUSTERCTL_INVENTORY", str(inventory))
    app(args=case["arguments"], standalone_mode=False)
    assert capsys.readouterr().out == case["expected"]

    name, *rest = case["arguments"]
    app(args=[name, "--json", *rest], standalone_mode=False)
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["artifact"]) == ("clusterctl.render/1", name)
    assert document["text"].rstrip("\n") == case["expected"].rstrip("\n")
    if name == "mpirun":
        assert shlex.split(document["text"]) == document["argv"]
    for node in document.get("nodes", []):
        assert shlex.split(node["text"]) == node["argv"]


def test_there_are_cases() -> None:
    assert len(CASES) >= 10
