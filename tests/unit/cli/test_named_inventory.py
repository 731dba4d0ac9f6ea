"""How a command line names its nodes: INVENTORY or ``-i``, targets, this machine with ``--local``."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from clusterctl.cli import either_inventory
from clusterctl.cli import main as cli
from clusterctl.cli.named_inventory import to_change
from clusterctl.text import typed_inventory
from clusterctl.text.typed_inventory import filled

INVENTORY = "version: 1\nnodes: [{name: 'n[1-2]', slots: 1, address: '10.0.0.[1-2]'}]\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLUSTERCTL_INVENTORY", raising=False)
    monkeypatch.setenv("CLUSTERCTL_RUNS", str(tmp_path / "runs"))
    (tmp_path / "two.yaml").write_text(INVENTORY)


def commands(application: typer.Typer, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield each command and the names of its parameters."""
    for command in application.registered_commands:
        assert command.callback is not None
        yield (
            f"{path}{command.name or command.callback.__name__}",
            list(inspect.signature(command.callback).parameters),
        )
    for group in application.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, f"{path}{group.name} ")


def test_every_command_that_takes_an_inventory_takes_it_both_ways() -> None:
    both, by_option = set(), set()
    for name, given in commands(cli.application()):
        if "inventory" in given:
            (both if "inventory_option" in given else by_option).add(name)
    assert {"check", "bootstrap", "undo", "up", "bench", "render hostfile", "image prove"} <= both
    # The first argument of these is a program or an image; a YAML file there is the inventory.
    assert {"render mpirun", "render docker-run", "image push", "image distribute"} <= by_option


@pytest.mark.parametrize(
    "words",
    [
        ["render", "hostfile", "two.yaml"],
        ["render", "hostfile", "-i", "two.yaml"],
        ["render", "hostfile", "--inventory", "two.yaml"],
        ["render", "mpirun", "two.yaml", "--", "true"],
        ["render", "mpirun", "-i", "two.yaml", "--", "true"],
    ],
)
def test_the_inventory_is_an_argument_or_an_option(words: list[str], capsys: Capture) -> None:
    assert cli.main(words) == 0
    shown = capsys.readouterr()
    assert "n1" in shown.out and "two.yaml" not in shown.out and shown.err == ""


@pytest.mark.parametrize("words", [["check"], ["render", "hostfile"], ["render", "mpirun"]])
def test_two_inventories_are_an_error(words: list[str], capsys: Capture) -> None:
    assert cli.main([*words, "two.yaml", "-i", "two.yaml"]) == 2
    assert "two inventories were given: two.yaml, and two.yaml with -i" in capsys.readouterr().err


def test_targets_need_no_file(capsys: Capture) -> None:
    assert cli.main(["render", "ssh-config", "root@gpu[01-02],admin@login:2222", "--limit", "!gpu01"]) == 0
    hosts = capsys.readouterr().out.partition("\nHost *")[0].split("\n\n")[1:]
    assert [host.split() for host in hosts] == [
        ["Host", "gpu02", "HostName", "gpu02", "User", "root"],
        ["Host", "login", "HostName", "login", "Port", "2222", "User", "admin"],
    ]


@pytest.mark.parametrize("word", ["gpu01", "gpu01.example.org"])
def test_a_bare_host_name_is_a_missing_file_with_a_hint(word: str, capsys: Capture) -> None:
    assert cli.main(["check", word]) == 4
    printed = capsys.readouterr().err
    assert f"{word}: cannot be read: No such file" in printed
    assert f"for the node {word} itself, give root@{word}" in printed


def test_a_missing_file_is_not_suggested_as_a_node(capsys: Capture) -> None:
    assert cli.main(["check", "missing.yaml"]) == 4
    assert "for the node" not in capsys.readouterr().err


def test_without_an_inventory_stderr_tells_what_is_used(capsys: Capture) -> None:
    cli.main(["check", "--only", "memlock"])
    assert capsys.readouterr().err.splitlines()[0] == "no ./inventory.yaml: checking this machine"
    assert cli.main(["render", "ssh-config"]) == 9
    assert "no ./inventory.yaml: using this machine" in capsys.readouterr().err
    cli.main(["bootstrap", "--dry-run", "--only", "memlock"])
    assert "no ./inventory.yaml: planning for this machine" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["bootstrap"], ["bootstrap", "--yes"], ["undo", "--yes"], ["up"]])
def test_this_machine_is_changed_only_if_it_is_asked_for(words: list[str], capsys: Capture) -> None:
    assert cli.main([*words, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["message"] == "no inventory was given, and ./inventory.yaml does not exist"
    assert error["hint"].endswith("or change this machine with --local")
    assert not Path("runs").exists()


def test_local_is_this_machine_also_beside_an_inventory() -> None:
    Path("inventory.yaml").write_text(INVENTORY)
    (node,) = to_change(None, verb="bootstrap", local=True).nodes
    assert node.connection == "local"
    assert cli.main(["undo", "--local", "two.yaml"]) == 2


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_is_asked(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(question)
        return answer == "y"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("clusterctl.cli.console.confirm", confirm)
    if answer == "y":
        assert to_change(None, verb="undo", local=False).nodes[0].connection == "local"
    else:
        with pytest.raises(typer.Exit):
            to_change(None, verb="undo", local=False)
    assert asked[0].startswith("no ./inventory.yaml: undo this machine, ")


def test_commands_to_paste_have_the_inventory_as_it_was_typed() -> None:
    said: list[str] = []

    def command(inventory: Path | None = None) -> None:
        said.append(
            filled("clusterctl check INVENTORY --only memlock, then clusterctl bootstrap INVENTORY", "")
        )

    called = either_inventory.accepting_both(command)
    called(inventory=Path("../my fleet.yaml"), inventory_option=None)
    called(inventory=None, inventory_option=Path("root@gpu[01-04]"))
    called(inventory=None, inventory_option=None)
    assert said == [
        "clusterctl check '../my fleet.yaml' --only memlock, then clusterctl bootstrap '../my fleet.yaml'",
        "clusterctl check 'root@gpu[01-04]' --only memlock, then clusterctl bootstrap 'root@gpu[01-04]'",
        "clusterctl check --only memlock, then clusterctl bootstrap",
    ]
    assert filled("clusterctl check INVENTORY") == "clusterctl check INVENTORY"
    assert filled("clusterctl locate INVENTORY names it", "") == "clusterctl locate names it"


def test_a_pipe_of_the_shell_cannot_be_pasted() -> None:
    read, write = os.pipe()
    try:
        with typed_inventory.named(Path(f"/dev/fd/{read}")):
            assert filled("clusterctl check INVENTORY") == "clusterctl check INVENTORY"
    finally:
        os.close(read)
        os.close(write)
