"""``inventory import``: stdout, files that are never overwritten unasked, standard input and JSON."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from clusterctl.cli.main import main
from clusterctl.inventory import load

HOSTFILE = "gpu01 slots=8\ngpu02 slots=8\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text(HOSTFILE)
    return path


def test_to_stdout_with_what_is_left_behind_on_stderr(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.write_text(HOSTFILE + "gpu03 slots=8 max_slots=9\n")
    assert main(["inventory", "import", str(source)]) == 0
    out, err = capsys.readouterr()
    assert [node.name for node in load.from_text(out).nodes] == ["gpu01", "gpu02", "gpu03"]
    assert f"{source}:3: max_slots=9 is not imported" in err


@pytest.mark.parametrize("there", [True, False])
def test_where_there_is_no_room_the_file_is_as_it_was(source: Path, tmp_path: Path, there: bool) -> None:
    out = tmp_path / "inventory.yaml"
    if there:
        out.write_text("mine")
    # A file may not be larger than 64 bytes: as on a disk that is full in the middle of it.
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)); from clusterctl.cli.main import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, "inventory", "import", str(source), "-o", str(out), "--force"][
            : None if there else -1
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and f"cannot write {out}: File too large" in done.stderr, done.stderr
    assert sorted((path.name, path.read_text()) for path in tmp_path.iterdir()) == [
        ("hosts", HOSTFILE), *([("inventory.yaml", "mine")] if there else [])
    ]  # fmt: skip


def test_a_file_is_written_and_never_overwritten_unasked(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "inventory.yaml"
    assert main(["inventory", "import", str(source), "-o", str(out)]) == 0
    assert load.load(out).nodes[1].slots == 8
    out.write_text("mine")
    assert main(["inventory", "import", str(source), "-o", str(out)]) == 2
    assert out.read_text() == "mine"
    assert main(["inventory", "import", str(source), "-o", str(out), "--force"]) == 0
    assert len(load.load(out).nodes) == 2


def test_from_standard_input_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"gpu[01-16,20]\n")))
    assert main(["inventory", "import", "-", "--from", "slurm", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clusterctl.import/1"
    assert (document["kind"], len(document["nodes"])) == ("slurm", 17)
    assert len(load.from_text(document["text"]).nodes) == 17


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"", 4, "no node found"),
        (b"\xff\xfe\x00", 4, "UTF-8"),
        (b"#!/bin/sh\necho\n", 4, "is a program"),
        (b"- \n- b: [\n", 4, "unknown inventory format"),
    ],
)
def test_what_cannot_be_read(
    source: Path, capsys: pytest.CaptureFixture[str], content: bytes, code: int, message: str
) -> None:
    source.write_bytes(content)
    assert main(["inventory", "import", str(source)]) == code
    assert message in capsys.readouterr().err


def test_a_source_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inventory", "import", str(tmp_path / "none")]) == 4
    assert main(["inventory", "import", "~no-such-user-here/hosts"]) == 4
    assert main(["inventory", "import", "x" * 300]) == 4
    assert "No such file" in capsys.readouterr().err


def test_relative_keys_are_looked_for_where_the_inventory_will_lie(source: Path, tmp_path: Path) -> None:
    place = tmp_path / "etc"
    place.mkdir()
    (place / "key").touch()
    source.write_text("[g]\nh ansible_ssh_private_key_file=key\n")
    assert main(["inventory", "import", str(source), "-o", str(place / "inventory.yaml")]) == 0
    assert load.load(place / "inventory.yaml").nodes[0].identity_file == str(place / "key")
