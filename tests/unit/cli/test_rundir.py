"""The run folder: private, whole files, and errors that say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterctl.errors import ConfigError, UsageError
from clusterctl.rundir import RunDir, write_atomically


def test_a_run_is_private_and_its_documents_come_back(tmp_path: Path) -> None:
    run = RunDir.create("check", tmp_path)
    path = run.write("facts", {"a": "ü"})
    assert run.path.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert RunDir.open(run.id, tmp_path).read("facts") == {"a": "ü"}
    assert RunDir.open(str(run.path)).id == run.id


def test_a_run_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    run = RunDir.create("check", tmp_path)
    with pytest.raises(UsageError, match="run 'x' not found") as raised:
        RunDir.open("x", tmp_path)
    assert run.id in str(raised.value.hint)


def test_missing_and_damaged_stages_are_told_apart(tmp_path: Path) -> None:
    run = RunDir.create("check", tmp_path)
    with pytest.raises(ConfigError, match=r"has no plan\.json"):
        run.read("plan")
    run.file("plan").write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        run.read("plan")


def test_what_cannot_be_looked_at_or_read_is_a_config_error(tmp_path: Path) -> None:
    # As a run of somebody else's; root, who may run the tests, reads those as well.
    with pytest.raises(ConfigError, match=r"cannot access .*: File name too long"):
        RunDir.open("x" * 300, tmp_path)
    run = RunDir.create("check", tmp_path)
    with pytest.raises(ConfigError, match=r"cannot access .*: File name too long"):
        run.holds("x" * 300)
    run.file("plan").mkdir()
    with pytest.raises(ConfigError, match=r"cannot read .*plan\.json: Is a directory"):
        run.read("plan")


def test_a_place_that_takes_no_folder_is_a_config_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    (tmp_path / "link").symlink_to("missing")
    for place, named in (
        (file, file), (file / "runs", file), (Path("/dev/full"), "/dev/full"), (tmp_path / "link", tmp_path / "link")
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"in {place}: {named} is not a directory") as caught:
            RunDir.create("check", place)
        assert "--runs DIR" in (caught.value.hint or "")
    with pytest.raises(ConfigError, match="cannot create the run folder"):
        RunDir.create("check", Path("/proc/runs"))


def test_a_stage_that_cannot_be_written_is_a_config_error(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "gone")
    with pytest.raises(ConfigError, match="cannot write"):
        run.write("facts", {})


def test_a_folder_that_cannot_be_made_is_a_config_error(tmp_path: Path) -> None:
    run = RunDir.create("bench", tmp_path)
    (run.path / "logs").write_text("")
    with pytest.raises(ConfigError, match=r"cannot create .*logs: File exists"):
        run.folder("logs")


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    (tmp_path / "b").mkdir()
    write_atomically(path, b"new")
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "b", b"new")
    assert path.read_bytes() == b"new"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "b"]


def test_a_link_to_a_run_and_its_folder_from_within_are_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDir.create("bootstrap", tmp_path)
    (tmp_path / "latest").symlink_to(run.path)
    assert RunDir.open("latest", tmp_path, "bootstrap").id == run.id
    monkeypatch.chdir(run.path)
    assert RunDir.open(".", tmp_path / "elsewhere", "bootstrap").id == run.id
