"""The run folder: private, whole files, and errors that say what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clusterctl.errors import ConfigError, UsageError
from clusterctl.rundir import LAB_FOLDER, RunDir, default_root, write_atomically


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
    # As a run of another user; root, who may run the tests, reads those as well.
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
    assert RunDir.open("latest", tmp_path, ("bootstrap",)).id == run.id
    monkeypatch.chdir(run.path)
    assert RunDir.open(".", tmp_path / "elsewhere", ("bootstrap",)).id == run.id


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Return an empty directory to work in, and a state directory that is empty, too."""
    for variable in ("CLUSTERCTL_RUNS", "CLUSTERCTL_INVENTORY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_runs_are_beside_the_inventory_and_found_from_below(elsewhere, tmp_path, monkeypatch):
    cluster = tmp_path / "cluster"
    (cluster / "jobs/today").mkdir(parents=True)
    (cluster / "inventory.yaml").write_text("")
    assert default_root(cluster / "inventory.yaml") == cluster / "runs"
    assert default_root(Path("root@gpu[01-04]")) == tmp_path / "state/clusterctl/runs"
    monkeypatch.setenv("CLUSTERCTL_INVENTORY", str(cluster / "inventory.yaml"))
    assert default_root() == cluster / "runs"
    monkeypatch.delenv("CLUSTERCTL_INVENTORY")
    monkeypatch.chdir(cluster / "jobs/today")
    assert default_root() == Path("../../runs")
    monkeypatch.chdir(cluster)
    assert default_root() == default_root(Path("inventory.yaml")) == Path("runs")
    monkeypatch.setenv("CLUSTERCTL_RUNS", "chosen")
    assert default_root(cluster / "inventory.yaml") == Path("chosen")


def test_without_an_inventory_earlier_runs_decide_then_the_state_directory(elsewhere, tmp_path, monkeypatch):
    assert default_root() == tmp_path / "state/clusterctl/runs"
    (elsewhere / "runs/of-another-program").mkdir(parents=True)
    assert default_root() == tmp_path / "state/clusterctl/runs"
    run = RunDir.create("check", elsewhere / "runs")
    (elsewhere / "below").mkdir()
    monkeypatch.chdir(elsewhere / "below")
    assert default_root() == Path("../runs")
    assert RunDir.open("latest").id == run.id


def test_the_inventories_of_labs_and_containers_have_the_runs_of_their_makers(elsewhere, tmp_path):
    lab = elsewhere / LAB_FOLDER / "inventory.yaml"
    lab.parent.mkdir()
    lab.write_text("")
    assert default_root(lab) == elsewhere / "runs"
    up = RunDir.create("up", tmp_path / "mine")
    (up.path / "containers.yaml").write_text("")
    assert default_root(up.path / "containers.yaml") == tmp_path / "mine"


def test_runs_that_another_user_left_above_are_not_taken(elsewhere, tmp_path, monkeypatch):
    # --resume applies the plan of a run folder, and /tmp above a directory of one's own is everybody's.
    RunDir.create("bootstrap", elsewhere / "runs")
    (elsewhere / "below").mkdir()
    monkeypatch.chdir(elsewhere / "below")
    owner = os.getuid() or 54321
    os.chown(elsewhere / "runs", owner, -1)
    os.chown(elsewhere, owner, -1)
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    assert default_root() == tmp_path / "state/clusterctl/runs"
    monkeypatch.setattr("os.geteuid", lambda: owner)
    assert default_root() == Path("../runs")


def test_a_directory_that_cannot_be_written_leaves_the_state_directory(elsewhere, tmp_path, monkeypatch):
    (elsewhere / "inventory.yaml").write_text("")
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != Path())
    assert default_root(Path("inventory.yaml")) == tmp_path / "state/clusterctl/runs"
