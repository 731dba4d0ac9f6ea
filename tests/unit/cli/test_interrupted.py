"""Ctrl-C in the middle of changes: what then goes on, and how to go on or back, is said before the command ends."""

from __future__ import annotations

import pytest

from clusterctl.apply import bootstrap as engine_of
from clusterctl.apply.undo import Undo, UndoOutcome
from clusterctl.cli import bootstrap, main
from clusterctl.rundir import RunDir
from clusterctl.transport.base import HostMap


def interrupted(*_arguments, **_named):
    raise KeyboardInterrupt


def test_a_bootstrap_says_how_to_go_on_and_how_to_go_back(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(engine_of, "apply", interrupted)
    run = RunDir.create("bootstrap", tmp_path / "runs")
    with pytest.raises(KeyboardInterrupt):
        bootstrap._applied(None, None, run)
    said = capsys.readouterr().err
    assert f"clusterctl bootstrap --resume {run.path}" in said
    assert f"clusterctl undo with the same inventory and --run {run.id}" in said


def test_an_undo_says_that_it_can_be_repeated(tmp_path, monkeypatch, capsys):
    (tmp_path / "inventory.yaml").write_text("version: 1\nnodes: [{name: a}]\n")
    monkeypatch.setattr(Undo, "list", lambda self, nodes: HostMap({"a": UndoOutcome("r", ())}))
    monkeypatch.setattr(Undo, "execute", interrupted)
    assert main.main(["undo", "--yes", str(tmp_path / "inventory.yaml")]) == 130
    assert "Run undo again" in capsys.readouterr().err
