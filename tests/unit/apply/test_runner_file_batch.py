"""Several files in a row: written together, and told, journalled and taken back one by one."""

from __future__ import annotations

import os
import struct
import sys

import pytest

from clusterctl.apply.plan.model import PlannedStep
from clusterctl.requirements.steps import WriteFile

ODD = "it's $(not) `run`\\n %s\n\n"


def _write(runner, name, content="new\n", mode=0o644):
    return WriteFile(f"write {name}", str(runner.root / name), content, mode)


def _last(ran):
    """The last word on each step."""
    return {r.number: r.event.value for r in ran.records if r.number}


def test_new_old_and_settled_files_of_every_mode(runner):
    for name, mode in (("old", 0o604), ("settled", 0o640), ("other mode", 0o600)):
        (runner.root / name).write_text(ODD)
        (runner.root / name).chmod(mode)
        os.utime(runner.root / name, (10**9, 10**9))
    before = runner.snapshot()
    steps = [
        _write(runner, "a/b/plain"),
        _write(runner, "a/script", "#!/bin/sh\n", 0o755),
        _write(runner, "a/secret", ODD, 0o600),
        _write(runner, "a/odd 'name'\\ $x\nsecond line", ODD, 0o640),
        _write(runner, "empty", ""),
        _write(runner, "old", "changed\n", 0o644),
        _write(runner, "settled", ODD, 0o640),
        _write(runner, "other mode", ODD, 0o644),
    ]
    ran = runner.apply(*steps)
    assert _last(ran) == {1: "changed", 2: "changed", 3: "changed", 4: "changed", 5: "changed", 6: "changed",
                          7: "unchanged", 8: "changed"}  # fmt: skip
    for step in steps:
        path = runner.root / step.path
        assert path.read_text() == step.content
        assert path.stat().st_mode & 0o7777 == step.mode, step.path
    assert not list(runner.root.rglob("*clusterctl*"))
    assert len(list((runner.state / "journal/run1").glob("[0-9]*"))) == 7
    assert set(_last(runner.apply(*steps)).values()) == {"unchanged"}
    runner.undo()
    assert runner.snapshot() == before


def test_links_and_files_with_two_names_keep_them(runner):
    (runner.root / "file").write_text("old\n")
    (runner.root / "link").symlink_to("file")
    (runner.root / "first").write_text("old\n")
    (runner.root / "second").hardlink_to(runner.root / "first")
    before = runner.snapshot()
    steps = [_write(runner, "new"), _write(runner, "link"), _write(runner, "first")]
    assert set(_last(runner.apply(*steps)).values()) == {"changed"}
    assert (runner.root / "link").is_symlink()
    assert (runner.root / "file").read_text() == (runner.root / "second").read_text() == "new\n"
    runner.undo()
    assert runner.snapshot() == before


def test_a_file_that_cannot_be_written_stops_its_requirement_alone(runner):
    (runner.root / "plain").write_text("no folder\n")
    before = runner.snapshot()
    steps = [
        PlannedStep(requirement, _write(runner, name))
        for requirement, name in (("a", "one"), ("a", "plain/two"), ("a", "three"), ("b", "four"))
    ]
    ran = runner.apply(*steps)
    assert _last(ran) == {1: "changed", 2: "failed", 3: "skipped", 4: "changed"}
    assert str(runner.root / "plain") in ran.detail("failed")
    assert ran.detail("skipped") == "an earlier step of a failed"
    assert sorted(p.name for p in runner.root.iterdir()) == ["four", "one", "plain"]
    (runner.root / "plain").unlink()
    assert _last(runner.apply(*steps)) == {1: "unchanged", 2: "changed", 3: "changed", 4: "unchanged"}
    (runner.root / "plain/two").unlink()
    (runner.root / "plain").rmdir()
    (runner.root / "plain").write_text("no folder\n")
    os.utime(runner.root / "plain", (0, before["plain"][4]))
    runner.undo()
    assert runner.snapshot() == before


def test_what_follows_a_failed_step_of_its_requirement_is_skipped(runner):
    (runner.root / "folder").mkdir()
    steps = [_write(runner, "folder"), _write(runner, "one"), _write(runner, "two")]
    assert _last(runner.apply(*steps)) == {1: "failed", 2: "skipped", 3: "skipped"}
    assert [p.name for p in runner.root.iterdir()] == ["folder"]


@pytest.mark.parametrize("tool", ["mv", "chmod", "sha256sum", "stat", "mkdir"])
def test_a_tool_that_fails_once_costs_nothing(runner, tool, tmp_path):
    """The batch gives way to single steps, which try it again."""
    (runner.root / "old").write_text("old\n")
    before = runner.snapshot()
    tried = tmp_path / "tried"
    runner.prelude = (
        f'{tool}() {{ [ -e {tried} ] || {{ echo >{tried}; return 1; }}; command {tool} "$@"; }}\n'
    )
    steps = [_write(runner, "new"), _write(runner, "old", "changed\n"), _write(runner, "script", "x", 0o755)]
    assert set(_last(runner.apply(*steps)).values()) == {"changed"}
    assert [(runner.root / s.path).read_text() for s in steps] == ["new\n", "changed\n", "x"]
    runner.prelude = ""
    runner.undo()
    assert runner.snapshot() == before


def test_a_run_that_is_cut_off_leaves_no_file_half_made(runner):
    """A signal in the middle: what has been moved in is reported, what has not is removed and skipped."""
    before = runner.snapshot()
    runner.prelude = 'mv() { command mv "$@" || return; case $3 in */two) kill -TERM $$ ;; esac; }\n'
    steps = [_write(runner, "one"), _write(runner, "two"), _write(runner, "three"), _write(runner, "four")]
    assert _last(runner.apply(*steps)) == {1: "changed", 2: "changed", 3: "skipped", 4: "skipped"}
    assert sorted(p.name for p in runner.root.iterdir()) == ["one", "two"]
    runner.prelude = ""
    assert _last(runner.apply(*steps)) == {1: "unchanged", 2: "unchanged", 3: "changed", 4: "changed"}
    runner.undo()
    assert runner.snapshot() == before


def test_the_mode_is_right_below_a_folder_with_a_default_acl(runner):
    """There the umask counts for nothing."""
    acl = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in ((1, 7), (4, 7), (16, 7), (32, 7))
    )
    assert sys.platform == "linux"
    os.setxattr(runner.root, "system.posix_acl_default", acl)
    steps = [_write(runner, "one"), _write(runner, "two", mode=0o600)]
    assert _last(runner.apply(*steps)) == {1: "changed", 2: "changed"}
    assert [(runner.root / s.path).stat().st_mode & 0o777 for s in steps] == [0o644, 0o600]
