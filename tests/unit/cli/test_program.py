"""The words after ``--`` are the program of ``run``; a word before it is the inventory."""

from __future__ import annotations

import pytest

from clusterctl.cli import main as cli


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLUSTERCTL_INVENTORY", raising=False)
    (tmp_path / "one.yaml").write_text("version: 1\nnodes: [{name: here, connection: local}]\n")
    return tmp_path


def test_an_inventory_and_a_program(here, capsys):
    assert cli.main(["run", "one.yaml", "--", "echo", "one.yaml", "--", "-q"]) == 0
    assert capsys.readouterr().out == "--- here\none.yaml -- -q\n"


def test_the_bound_of_a_stream_holds_on_this_machine_too(here, capsys):
    assert cli.main(["run", "one.yaml", "--max-output", "1", "--", "yes | head -c 3072"]) == 0
    assert capsys.readouterr().out.startswith("--- here, the first 1 KiB of 3 KiB\ny\n")


@pytest.mark.parametrize("words", [[], ["one.yaml"], ["one.yaml", "--"], ["--"]])
def test_a_missing_program_is_an_error(here, capsys, words):
    assert cli.main(["run", *words]) == 2
    assert "no command was given" in (err := capsys.readouterr().err)
    assert "hint: write: clusterctl run [INVENTORY] -- COMMAND" in err


def test_a_program_without_dashes_is_an_error(here, capsys):
    assert cli.main(["run", "one.yaml", "uptime"]) == 2
    assert "'uptime': the command must follow '--'" in capsys.readouterr().err


def test_a_document_is_not_streamed(here, capsys):
    assert cli.main(["run", "one.yaml", "--stream", "--json", "--", "true"]) == 2
    assert "--stream and --json cannot be combined" in capsys.readouterr().out
