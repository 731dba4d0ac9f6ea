"""Files that users name for reports: whole or not at all, and never replacing what is not a plain file."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from clusterctl.cli import console, report_files
from clusterctl.errors import ConfigError, ResultError, UsageError


def test_a_report_replaces_a_plain_file_and_not_the_link_to_it(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    report_files.refuse_unwritable(link)
    report_files.write(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o644


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    report_files.refuse_unwritable(pipe)
    report_files.write(pipe, "<x/>")
    reader.join(20)
    assert read == ["<x/>"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_standard_output_and_the_null_device_stay_what_they_are(capfd):
    stdout, null = Path("/dev/stdout"), Path("/dev/null")
    before = stdout.lstat().st_ino, null.stat().st_rdev
    console.data("said before")
    for path in (stdout, null):
        report_files.refuse_unwritable(path)
        report_files.write(path, "<report/>")
    assert (stdout.lstat().st_ino, null.stat().st_rdev) == before
    assert capfd.readouterr().out == "said before\n<report/>"


def test_a_dash_is_no_file():
    with pytest.raises(ConfigError) as refused:
        report_files.refuse_unwritable(Path("-"))
    assert "/dev/stdout" in refused.value.hint


@pytest.mark.parametrize("place", ["x" * 250, "x" * 300, "x" * 300 + "/report.xml", "none/report.xml"])
def test_what_could_not_be_written_in_the_end_is_refused_before(tmp_path, place):
    with pytest.raises(ConfigError, match="cannot write"):
        report_files.refuse_unwritable(tmp_path / place)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_a_circle_gives_way(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(link)
    report_files.refuse_unwritable(link)
    report_files.write(link, "new")
    assert link.read_text() == "new"


def test_two_reports_cannot_go_to_one_file(tmp_path):
    (tmp_path / "link").symlink_to("report")
    with pytest.raises(UsageError, match="one file"):
        report_files.refuse_unwritable(tmp_path / "report", tmp_path / "link")
    report_files.refuse_unwritable(tmp_path / "report", None, tmp_path / "other")
    report_files.refuse_unwritable(Path("/dev/stdout"), Path("/dev/stdout"))


def test_a_report_that_cannot_be_made_does_not_end_the_others(tmp_path, capfd):
    reports = report_files.EachReport()
    with reports.of(tmp_path / "a.html"):
        report_files.write(tmp_path / "a.html", str(int("inf")))
    with reports.of(tmp_path / "none" / "b.xml"):
        report_files.write(tmp_path / "none" / "b.xml", "<x/>")
    with reports.of(tmp_path / "c.prom"):
        report_files.write(tmp_path / "c.prom", "x 1\n")
    assert (tmp_path / "c.prom").read_text() == "x 1\n"
    with pytest.raises(ResultError, match=r"cannot make the report .*a\.html: ValueError: invalid literal"):
        reports.finish()
    assert "error: cannot write" in capfd.readouterr().err
