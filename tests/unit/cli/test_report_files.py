"""Files that users name for reports: whole or not at all, and never in the place of what is no plain file."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from clusterctl.cli import console, report_files
from clusterctl.errors import ConfigError


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
