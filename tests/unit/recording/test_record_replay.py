"""``check --record`` and ``--replay``: equal verdicts without nodes, no secrets, clear words for what is damaged."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from clusterctl.errors import ConfigError
from clusterctl.facts.gather import RawAnswer
from clusterctl.facts.recording import replay
from clusterctl.facts.recording.record import Recorder
from clusterctl.inventory import load
from clusterctl.transport.base import Failure, FailureKind, HostMap

INVENTORY = """\
version: 1
defaults: {connection: local, env: {HF_TOKEN: correct-horse-battery}}
nodes:
  - name: n[1-2]
    address: 127.0.0.[1-2]
  - name: gone
    address: 127.0.0.1
    port: 1
    connection: ssh
"""


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CLUSTERCTL_")}
    return subprocess.run(
        [sys.executable, "-m", "clusterctl.cli.main", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def without_run(printed: str) -> str:
    """Return the document without the id of its run, which a replay has not."""
    return re.sub(r',\n "run": "[^"]+"', "", printed)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A directory with a recording, its inventory removed, and what the check printed as JSON."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "fleet.yaml").write_text(INVENTORY)
    done = run("check", "fleet.yaml", "--json", "--record", "bug", folder=folder)
    assert done.returncode == 1, done.stderr
    assert "recorded in bug" in done.stderr
    assert "gives different verdicts" not in done.stderr
    (folder / "fleet.yaml").unlink()
    shutil.rmtree(folder / "runs")
    return folder, without_run(done.stdout)


def test_a_replay_gives_the_same_bytes_without_nodes_and_inventory(recorded: tuple[Path, str]) -> None:
    folder, said = recorded
    done = run("check", "--replay", "bug", "--json", folder=folder)
    assert done.stdout == said
    assert done.returncode == 1
    assert "different verdicts" not in done.stderr
    assert not (folder / "runs").exists()


def test_a_recording_may_be_carried_in_one_file(recorded: tuple[Path, str], tmp_path: Path) -> None:
    folder, said = recorded
    with tarfile.open(tmp_path / "bug.tgz", "w:gz") as tar:
        tar.add(folder / "bug", "whatever")
    done = run("check", "--replay", "bug.tgz", "--json", folder=tmp_path)
    assert done.stdout == said


def test_one_file_can_be_recorded_as_such(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(INVENTORY)
    said = run("check", "fleet.yaml", "--json", "--record", "bug.tar.gz", folder=tmp_path)
    assert (tmp_path / "bug.tar.gz").stat().st_mode & 0o777 == 0o600
    assert run("check", "--replay", "bug.tar.gz", "--json", folder=tmp_path).stdout == without_run(
        said.stdout
    )


def test_a_replay_takes_other_options(recorded: tuple[Path, str]) -> None:
    folder, _ = recorded
    done = run("check", "--replay", "bug", "--json", "--only", "memlock", "--limit", "n2", folder=folder)
    (node,) = json.loads(done.stdout)["nodes"]
    assert node["name"] == "n2"
    assert [verdict["requirement"] for verdict in node["verdicts"]] == ["memlock"]


def test_only_the_owner_can_read_it(recorded: tuple[Path, str]) -> None:
    folder, _ = recorded
    for path in [folder / "bug", *(folder / "bug").rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_it_tells_what_was_taken_out_and_what_was_not(recorded: tuple[Path, str]) -> None:
    folder, _ = recorded
    text = (folder / "bug" / "scrubbed.txt").read_text()
    assert "public keys" in text and "addresses" in text
    assert "correct-horse-battery" not in (folder / "bug" / "inventory.json").read_text()


@pytest.mark.parametrize("there", ["a-folder", "a-file", "a-link"])
def test_nothing_is_written_over(tmp_path: Path, there: str) -> None:
    target = tmp_path / there
    {"a-folder": target.mkdir, "a-file": target.touch, "a-link": lambda: target.symlink_to("x")}[there]()
    (tmp_path / "fleet.yaml").write_text(INVENTORY)
    done = run("check", "fleet.yaml", "--record", there, folder=tmp_path)
    assert done.returncode == 3
    assert "exists already" in done.stderr


def test_a_replay_with_an_inventory_is_refused(recorded: tuple[Path, str]) -> None:
    folder, _ = recorded
    for more in (("some.yaml",), ("--record", "x")):
        assert run("check", *more, "--replay", "bug", folder=folder).returncode == 2


def _edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _forge(bug: Path, name: str, text: str) -> None:
    """Write a member and its sum, as one does who means harm."""
    (bug / name).write_text(text)
    files = json.loads((bug / "record.json").read_text())["files"]
    _edit(bug / "record.json", files={**files, name: hashlib.sha256(text.encode()).hexdigest()})


DAMAGE = {
    "changed after the recording": lambda bug: (bug / "nodes/n1/answer-1.out").write_bytes(b"other bytes"),
    "has no nodes/n2/answer-1.out": lambda bug: (bug / "nodes/n2/answer-1.out").unlink(),
    "has no record.json": lambda bug: (bug / "record.json").unlink(),
    "record.json: not JSON: Expecting value": lambda bug: (bug / "record.json").write_text(""),
    "must hold a JSON object": lambda bug: (bug / "record.json").write_text("[]"),
    "schema 'clusterctl.record/9'": lambda bug: _edit(bug / "record.json", schema="clusterctl.record/9"),
    "schema None": lambda bug: (bug / "record.json").write_text("{}"),
    "record.json: nodes": lambda bug: _edit(bug / "record.json", nodes="none"),
    "its nodes differ from those": lambda bug: _edit(bug / "record.json", nodes=[]),
    "earlier.json: the document does not have the schema": lambda bug: _forge(
        bug, "earlier.json", '{"n1": []}'
    ),
    "outside of the recording": lambda bug: _edit(bug / "record.json", files={"../../etc/passwd": "0"}),
    "is a link": lambda bug: (
        (bug / "report.json").unlink(),
        (bug / "report.json").symlink_to("record.json"),
    ),
}


@pytest.mark.parametrize("words", DAMAGE)
def test_damage_is_named(recorded: tuple[Path, str], tmp_path: Path, words: str) -> None:
    bug = tmp_path / "bug"
    shutil.copytree(recorded[0] / "bug", bug)
    DAMAGE[words](bug)
    with pytest.raises(ConfigError) as refused:
        replay.read(bug)
    assert words in refused.value.message
    assert refused.value.hint


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.tar.gz").write_text("not a tar file")
    for name, words in (
        ("folder", "has no record.json"),
        ("text.tar.gz", "not a complete recording: it is not a tar file\n"),
        ("nothing", "recording nothing not found"),
    ):
        done = run("check", "--replay", name, folder=tmp_path)
        assert done.returncode == 3
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_a_cut_file_is_named(recorded: tuple[Path, str], tmp_path: Path) -> None:
    whole = tmp_path / "whole.tgz"
    with tarfile.open(whole, "w:gz") as tar:
        tar.add(recorded[0] / "bug", "bug")
    cut = tmp_path / "cut.tgz"
    cut.write_bytes(whole.read_bytes()[:2000])
    with pytest.raises(ConfigError, match="not a complete recording"):
        replay.read(cut)


def _answer(text: str) -> RawAnswer:
    return RawAnswer("0" * 32, False, 0, text.encode(), b"a warning: TOKEN=hunter22", 1.0, 2.0)


def test_no_member_holds_a_secret_that_a_node_printed(tmp_path: Path) -> None:
    inventory = load.from_text(INVENTORY)
    recorder = Recorder(tmp_path / "bug", inventory)
    text = "proxy=http://bob:hunter22@p:1\nsaid correct-horse-battery\n"
    text += "-----BEGIN PRIVATE KEY-----\nMIIEhunter22hunter22\n"
    recorder.heard(inventory.nodes[0], (_answer(text),), "sudo said PASSWORD=hunter22")
    failures = {
        node.name: Failure(FailureKind.ERROR, "no way: http://bob:hunter22@p:1") for node in inventory.nodes
    }
    found = recorder.finish(HostMap(failures), earlier={}, only=None, skip=(), result={"x": "TOKEN=hunter22"})
    assert found["credentials in a URL"] == 4
    members = [path for path in (tmp_path / "bug").rglob("*") if path.is_file()]
    assert len(members) == 7
    for path in members:
        assert b"hunter22" not in path.read_bytes(), path
        assert b"correct-horse" not in path.read_bytes(), path
    assert "n1: " in (tmp_path / "bug" / "scrubbed.txt").read_text()
    assert replay.read(tmp_path / "bug").facts.failures.keys() == {"n1", "n2", "gone"}


@pytest.mark.parametrize("name", ["bug", "bug.tar.gz"])
def test_a_recording_that_did_not_end_leaves_nothing(tmp_path: Path, name: str) -> None:
    inventory = load.from_text(INVENTORY)
    recorder = Recorder(tmp_path / name, inventory)
    recorder.heard(inventory.nodes[0], (_answer("x"),), None)
    recorder.discard()
    assert list(tmp_path.iterdir()) == []


def test_bytes_that_are_no_text_come_back_as_they_were(tmp_path: Path) -> None:
    inventory = load.from_text(INVENTORY)
    recorder = Recorder(tmp_path / "bug", inventory)
    data = bytes(range(256)) * 4
    recorder.heard(inventory.nodes[0], (RawAnswer("0" * 32, False, 0, data, b"", 1.0, 2.0),), None)
    assert (tmp_path / "bug/nodes/n1/answer-1.out").read_bytes() == data
    recorder.discard()
