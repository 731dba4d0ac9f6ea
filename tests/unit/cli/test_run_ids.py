"""Runs are named the same way everywhere: by id, by a unique part of an id, by path, or as latest."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterctl import run_ids, rundir
from clusterctl.cli.undo.command import run_id
from clusterctl.errors import UsageError
from clusterctl.rundir import RunDir

IDS = (
    "20261124T090000Z-check-77cf",
    "20261123T180000Z-bootstrap-fae7",
    "20261123T170000Z-bootstrap-77ca",
    "20261101T070000Z-bench-0001",
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("latest", 0),
        (IDS[1], 1),
        ("fae7", 1),
        ("77ca", 2),
        ("check-77cf", 0),
        ("20261101", 3),
        ("bench", 3),
        ("T18", 1),
        (f"some/runs/{IDS[2]}/", 2),
    ],
)
def test_a_unique_part_names_a_run(wanted: str, found: int) -> None:
    assert run_ids.resolve(wanted, IDS, "runs") == IDS[found]


def test_an_ambiguous_part_lists_the_candidates() -> None:
    with pytest.raises(UsageError, match="'bootstrap' matches 2 runs: ") as raised:
        run_ids.resolve("bootstrap", IDS, "runs")
    assert IDS[1] in raised.value.message and IDS[2] in raised.value.message
    with pytest.raises(UsageError, match="and 35 more"):
        run_ids.resolve("check", [f"20261124T0900{i:02}Z-check-0000" for i in range(40)], "runs")


@pytest.mark.parametrize("wanted", ["", "/", "..", "nope", "latest-check", "77cf/report.json"])
def test_a_part_of_no_run_names_the_latest_runs(wanted: str) -> None:
    with pytest.raises(UsageError, match="not found in runs") as raised:
        run_ids.resolve(wanted, IDS, "runs")
    assert raised.value.hint is not None and IDS[0] in raised.value.hint
    with pytest.raises(UsageError, match="not found in runs") as raised_too:
        run_ids.resolve(wanted, (), "runs", of="'bootstrap'")
    assert raised_too.value.hint == "runs has no run of 'bootstrap' yet"


def test_only_folders_with_the_name_of_a_run_are_runs(tmp_path: Path) -> None:
    for name in (*IDS, "baselines", "20261124-check-77cf", "x20261124T090000Z-check-77cf"):
        (tmp_path / name).mkdir()
    (tmp_path / "20261125T090000Z-check-aaaa").symlink_to(tmp_path / IDS[0])
    (tmp_path / "20261125T090000Z-check-bbbb").write_text("")
    assert rundir.ids(tmp_path) == list(IDS)
    assert rundir.ids(tmp_path, ("bootstrap",)) == list(IDS[1:3])
    assert rundir.ids(tmp_path / "nothing") == []
    with pytest.raises(UsageError, match="run 'baselines' not found"):
        RunDir.open("baselines", tmp_path)


def test_latest_of_a_command_that_needs_a_stage_is_one_that_has_it(tmp_path: Path) -> None:
    for name in IDS:
        (tmp_path / name).mkdir()
    (tmp_path / IDS[2] / "apply.json").write_text("{}")
    assert RunDir.open("latest", tmp_path).id == IDS[0]
    assert RunDir.open("latest", tmp_path, ("bootstrap",)).id == IDS[1]
    assert RunDir.open("latest", tmp_path, ("bootstrap",), "apply").id == IDS[2]
    # The newer one only showed its plan: there is nothing to undo.
    assert run_id("latest", tmp_path) == IDS[2]
    with pytest.raises(UsageError, match="is not a run of 'bootstrap'"):
        run_id(IDS[0], tmp_path)
    # The nodes have the journal, so a whole id of another machine's run is accepted.
    assert run_id("20260101T000000Z-bootstrap-0000", tmp_path) == "20260101T000000Z-bootstrap-0000"
