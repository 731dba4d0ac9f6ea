"""The index of the runs: it saves reading, and no state of it or of a run folder changes what a list shows."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from result_documents import collective

from clusterctl import rundir
from clusterctl.documents.runs import ListedRun
from clusterctl.rundir import RunDir
from clusterctl.runs import index, outcome

BENCH, CHECK = "20261101T000000Z-bench-0001", "20261102T000000Z-check-0002"
OLD = 1_700_000_000


def settled(folder: Path) -> None:
    """Set the times of a run folder to a past moment, as if it had been written then."""
    for path in (*folder.iterdir(), folder):
        os.utime(path, (OLD, OLD))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for run, stage, document in (
        (BENCH, "results", collective(run=BENCH).document),
        (CHECK, "report", {"summary": {"unmet": 2, "unknown": 0, "unreachable": 0}}),
    ):
        folder = RunDir(tmp_path / run)
        folder.path.mkdir()
        folder.write("inventory", {"nodes": [{"name": "gpu01"}]})
        folder.write(stage, document)
        settled(folder.path)
    return tmp_path


def find(root: Path) -> index.IndexedRuns:
    return index.find(root, rundir.ids(root))


def folders_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the runs whose directories a list reads."""
    read: list[str] = []

    def listed(run: RunDir) -> ListedRun:
        read.append(run.id)
        return reading(run)

    reading = outcome.listed
    with monkeypatch.context() as patched:
        patched.setattr(outcome, "listed", listed)
        found = find(root)
    assert [one.run for one in found.entries] == rundir.ids(root)
    assert found.entries == tuple(outcome.listed(RunDir(root / run)) for run in rundir.ids(root))
    return read


def test_a_second_list_reads_no_folder_and_shows_the_same(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folders_read(root, monkeypatch) == [CHECK, BENCH]
    assert (root / index.FILE).stat().st_mode & 0o777 == 0o600
    assert folders_read(root, monkeypatch) == []


def _labelled(root: Path) -> None:
    RunDir(root / CHECK).set_label("after the swap")


def _rewritten(root: Path) -> None:
    """Change a result in place, which leaves the time of its directory."""
    (root / CHECK / "report.json").write_text(
        json.dumps({"summary": {"unmet": 0, "unknown": 0, "unreachable": 7}})
    )


def _half_deleted(root: Path) -> None:
    (root / CHECK / "report.json").unlink()


def _resumed(root: Path) -> None:
    _resumed.held = RunDir(root / CHECK).hold()  # type: ignore[attr-defined]


def _damaged(root: Path) -> None:
    (root / CHECK / "report.json").write_text("{")


def _a_link(root: Path) -> None:
    (root / CHECK / "report.json").unlink()
    (root / CHECK / "report.json").symlink_to("/dev/zero")


def _a_pipe(root: Path) -> None:
    (root / CHECK / "report.json").unlink()
    os.mkfifo(root / CHECK / "report.json")


@pytest.mark.parametrize(
    "change",
    [_labelled, _rewritten, _half_deleted, _resumed, _damaged, _a_link, _a_pipe],
    ids=lambda one: one.__name__,
)
def test_a_changed_folder_is_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    find(root)
    change(root)
    assert folders_read(root, monkeypatch) == [CHECK]
    assert folders_read(root, monkeypatch) == [CHECK]  # too fresh, or not a state that lasts


def test_a_removed_run_is_not_listed_and_leaves_the_index(root: Path) -> None:
    find(root)
    for path in (root / CHECK).iterdir():
        path.unlink()
    (root / CHECK).rmdir()
    (root / BENCH / "results.json").touch()
    settled(root / BENCH)
    os.utime(root / BENCH, (OLD + 9, OLD + 9))
    assert [one.run for one in find(root).entries] == [BENCH]
    with sqlite3.connect(root / index.FILE) as rows:
        assert rows.execute("SELECT run FROM runs").fetchall() == [(BENCH,)]


def test_a_run_that_is_removed_while_it_is_read_is_not_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(run: RunDir) -> ListedRun:
        if run.id == CHECK:
            shutil.rmtree(run.path)
        return reading(run)

    reading = outcome.listed
    monkeypatch.setattr(outcome, "listed", listed)
    assert [one.run for one in find(root).entries] == [BENCH]


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")


def _endless_view(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "DROP TABLE runs; CREATE VIEW runs AS WITH RECURSIVE c(run) AS (SELECT 1 UNION ALL SELECT run + 1 FROM c) "
            "SELECT run, run stamp, run entry FROM c;"
        )


def _overwritten(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))


def _replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        path.unlink()
        make(path)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_newer, f"another version of clusterctl made it (schema 99, not {index.VERSION})"),
        (_endless_view, "it is not an index of runs"),
        (_overwritten, "it is damaged"),
        (lambda path: path.write_bytes(b"x" * 5000), "it is damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:700]), "it is damaged"),
        (_replaced(os.mkfifo), "it is not a regular file"),
        (_replaced(lambda path: path.symlink_to("/dev/zero")), "it is not a regular file"),
    ],
)
def test_an_index_that_cannot_be_used_is_made_again_with_one_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object], said: str
) -> None:
    find(root)
    spoil(root / index.FILE)
    assert find(root).note == f"{root / index.FILE} is made again from the run folders: {said}"
    assert folders_read(root, monkeypatch) == [] and find(root).note == ""


@pytest.mark.parametrize("value", [None, b"\xff", "", "[]", "{", '{"run": 1}', "9" * 5000, "[" * 5000, 7])
def test_a_row_that_cannot_be_read_is_written_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    find(root)
    with sqlite3.connect(root / index.FILE) as connection:
        connection.execute(
            "UPDATE OR IGNORE runs SET entry = ? WHERE run = ?", ("" if value is None else value, CHECK)
        )
    assert folders_read(root, monkeypatch) == [CHECK]
    assert folders_read(root, monkeypatch) == []


def test_a_directory_in_the_place_of_the_index_is_named_and_left(root: Path) -> None:
    (root / index.FILE).mkdir()
    found = find(root)
    assert len(found.entries) == 2 and "is not used, and the run folders are read" in found.note


def test_a_database_of_another_program_is_named_and_left(root: Path) -> None:
    with sqlite3.connect(root / index.FILE) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    content = (root / index.FILE).read_bytes()
    found = find(root)
    assert len(found.entries) == 2 and found.note.endswith(
        "the run folders are read: another program made it"
    )
    assert (root / index.FILE).read_bytes() == content


def test_an_index_in_use_elsewhere_is_not_waited_for_long(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_BUSY_TIMEOUT_S", 0.01)
    find(root)
    holder = sqlite3.connect(root / index.FILE, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert folders_read(root, monkeypatch) == [CHECK, BENCH]
    holder.close()
    assert folders_read(root, monkeypatch) == []


def test_a_place_without_runs_gets_no_index(tmp_path: Path) -> None:
    assert index.find(tmp_path / "none", []) == index.IndexedRuns(())
    assert not (tmp_path / "none").exists()
