"""Steps that change files, values and trees, run by the real shell program: changed, failed, and taken back."""

from __future__ import annotations

import hashlib
import os
import shutil

import pytest

from clusterctl.requirements.steps import Command, PutTree, WriteFile, WriteValue


def test_a_new_file_in_new_folders_is_written_and_removed_with_them(runner):
    (runner.root / "etc").mkdir()
    before = runner.snapshot()
    path = runner.root / "etc/a/b/new.conf"
    step = WriteFile("write it", str(path), "it's $(not) `run`\n\n", 0o640)
    ran = runner.apply(step)
    assert ran.events(1) == [(1, "begin"), (1, "changed")]
    assert path.read_text() == "it's $(not) `run`\n\n"
    assert path.stat().st_mode & 0o7777 == 0o640
    assert path.parent.stat().st_mode & 0o7777 == 0o755
    assert runner.apply(step).events(1) == [(1, "unchanged")]
    runner.undo()
    assert runner.snapshot() == before


def test_an_old_file_gets_back_its_bytes_mode_owner_and_time(runner):
    path = runner.root / "old.conf"
    path.write_bytes(b"old \xff\x00 bytes, no newline")
    path.chmod(0o604)
    os.utime(path, ns=(10**18, 10**18))
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
    before = runner.snapshot()
    runner.apply(WriteFile("replace it", str(path), "new\n", 0o644))
    assert path.read_text() == "new\n"
    if os.geteuid() == 0:
        assert (path.stat().st_uid, path.stat().st_gid) == (12, 34)
    runner.undo()
    assert runner.snapshot() == before


def test_only_the_mode_differs(runner):
    path = runner.root / "script"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o644)
    before = runner.snapshot()
    assert (1, "changed") in runner.apply(WriteFile("x", str(path), "#!/bin/sh\n", 0o755)).events(1)
    assert path.stat().st_mode & 0o7777 == 0o755
    runner.undo()
    assert runner.snapshot() == before


def test_a_link_stays_a_link_and_its_file_is_changed(runner):
    (runner.root / "real").write_text("old\n")
    (runner.root / "link").symlink_to("real")
    before = runner.snapshot()
    runner.apply(WriteFile("through the link", str(runner.root / "link"), "new\n"))
    assert (runner.root / "link").is_symlink()
    assert (runner.root / "real").read_text() == "new\n"
    runner.undo()
    assert runner.snapshot() == before


def test_a_file_with_two_names_is_not_left_torn_by_a_full_disk(runner):
    (runner.root / "first").write_text("old\n")
    (runner.root / "second").hardlink_to(runner.root / "first")
    os.utime(runner.root / "first", (10**9, 10**9))
    before = runner.snapshot()
    step = WriteFile("x", str(runner.root / "first"), "new\n", 0o644)
    full = 'cat() { case $1 in *-whole) printf n; return 1 ;; esac; command cat "$@"; }\n'
    runner.prelude = full
    assert runner.apply(step).events(1)[-1] == (1, "failed")
    assert runner.snapshot() == before
    runner.prelude = ""
    assert runner.apply(step).events(1)[-1] == (1, "changed")
    assert (runner.root / "second").read_text() == "new\n"
    runner.undo()
    assert runner.snapshot() == before


def test_a_folder_in_the_way_fails_and_is_left_alone(runner):
    (runner.root / "conf").mkdir()
    before = runner.snapshot()
    ran = runner.apply(WriteFile("x", str(runner.root / "conf"), "new\n"))
    assert ran.events(1) == [(1, "failed")]
    assert "not a regular file" in ran.detail("failed")
    assert runner.snapshot() == before


def test_a_file_changed_by_hand_is_kept_unless_forced(runner):
    path = runner.root / "conf"
    path.write_text("old\n")
    runner.apply(WriteFile("x", str(path), "ours\n"))
    path.write_text("someone's\n")
    ran = runner.undo()
    assert (1, "failed") in ran.events(1)
    assert "--force" in ran.detail("failed")
    assert path.read_text() == "someone's\n"
    # The run is not undone, so a forced undo finds it again.
    assert (1, "changed") in runner.undo(force=True).events(1)
    assert path.read_text() == "old\n"


def test_a_file_that_no_longer_says_what_its_text_was_made_from_is_left_alone(runner):
    path = runner.root / "conf"
    path.write_text("{\n}\n")
    step = WriteFile("x", str(path), "{new}\n", made_from=hashlib.sha256(b"{}").hexdigest())
    other = WriteFile("y", str(runner.root / "other"), "new\n")
    path.write_text("{theirs}\n")
    ran = runner.apply(other, step, requirement="a")
    assert ran.events(2) == [(2, "failed")]
    assert "was changed after its facts were gathered" in ran.detail("failed")
    assert path.read_text() == "{theirs}\n"
    path.write_text("{\r\n} \n\n")
    assert runner.apply(step).events(1) == [(1, "begin"), (1, "changed")]
    # The run's own text is not another user's change.
    again = WriteFile("x", str(path), "{newer}\n", made_from=hashlib.sha256(b"{new}").hexdigest())
    assert runner.apply(again).events(1) == [(1, "begin"), (1, "changed")]
    runner.undo()
    assert path.read_bytes() == b"{\r\n} \n\n"


@pytest.mark.parametrize("before", ["old\n", None])
def test_a_file_changed_by_hand_before_a_run_goes_on_is_left_alone(runner, before):
    path = runner.root / "conf"
    if before is not None:
        path.write_text(before)
    step = WriteFile("x", str(path), "ours\n")
    runner.apply(step)
    path.write_text("someone's\n")
    ran = runner.apply(step)
    assert ran.events(1) == [(1, "begin"), (1, "failed")]
    assert "was changed by another program during this run" in ran.detail("failed")
    assert path.read_text() == "someone's\n"
    assert (1, "failed") in runner.undo().events(1)
    # What stood there before the run, or nothing, is what a power loss leaves.
    path.unlink()
    assert (1, "changed") in runner.apply(step).events(1)
    path.write_text(before or "ours\n")
    path.chmod(0o600)
    assert (1, "changed") in runner.apply(step).events(1)
    runner.undo()
    assert runner.contents() == ({} if before is None else {"conf": b"old\n"})


def test_a_new_file_changed_by_hand_is_not_removed_unless_forced(runner):
    path = runner.root / "conf"
    runner.apply(WriteFile("x", str(path), "ours\n"))
    path.write_text("someone's\n")
    assert (1, "failed") in runner.undo().events(1)
    assert path.exists()
    runner.undo(force=True)
    assert not path.exists()


def test_a_made_folder_with_a_stranger_in_it_stays(runner):
    runner.apply(WriteFile("x", str(runner.root / "d/conf"), "ours\n"))
    (runner.root / "d/stranger").write_text("s\n")
    assert (1, "changed") in runner.undo().events(1)
    assert runner.contents() == {"d/stranger": b"s\n"}


def test_a_value_is_written_read_back_and_restored(runner):
    path = runner.root / "scaling_governor"
    path.write_text("powersave\n")
    step = WriteValue("governor", str(path), "performance", "powersave")
    assert runner.apply(step).events(1) == [(1, "begin"), (1, "changed")]
    assert runner.apply(step).events(1) == [(1, "unchanged")]
    runner.undo()
    assert path.read_text() == "powersave\n"


def test_a_value_that_drifted_since_the_plan_is_reported_and_its_real_prior_restored(runner):
    path = runner.root / "value"
    path.write_text("third\n")
    ran = runner.apply(WriteValue("v", str(path), "new", "old"))
    assert "held 'third', not 'old'" in ran.detail("note")
    runner.undo()
    assert path.read_text() == "third\n"


def test_a_value_that_does_not_take_is_a_failure_that_says_what_it_reads(runner):
    # /dev/full takes no byte, and so stands for a knob that refuses.
    ran = runner.apply(WriteValue("v", "/dev/null", "new", ""))
    assert ran.events(1)[-1] == (1, "failed")
    assert "reads ''" in ran.detail("failed")


def test_a_tree_is_put_built_and_removed(runner, tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "Makefile").write_text("all:\n\techo built > product\n")
    (source / "sub/run").write_text("#!/bin/sh\n")
    (source / "sub/run").chmod(0o755)
    before = runner.snapshot()
    tree = runner.root / "usr/src/tree"
    put = PutTree("put", str(source), str(tree))
    make = Command("make", ("sh", "-c", f"echo built > {tree}/product"), None)
    assert runner.apply(put, make).events(2)[-1] == (2, "changed")
    assert (tree / "product").read_text() == "built\n"
    assert os.access(tree / "sub/run", os.X_OK)
    assert runner.apply(put).events(1) == [(1, "unchanged")]
    runner.undo()
    assert runner.snapshot() == before


def test_a_tree_in_the_way_comes_back(runner, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_text("new\n")
    tree = runner.root / "tree"
    tree.mkdir()
    (tree / "mine").write_text("mine\n")
    before = runner.snapshot()
    runner.apply(PutTree("put", str(source), str(tree)))
    assert not (tree / "mine").exists()
    runner.undo()
    assert runner.snapshot() == before


def test_a_tree_of_somebody_else_or_of_a_later_run_is_not_what_an_undo_takes_away(runner, tmp_path):
    source, tree = tmp_path / "source", runner.root / "tree"
    source.mkdir()
    tree.mkdir()
    (tree / "mine").write_text("mine\n")
    before = runner.snapshot()
    for run, text in (("run1", "1\n"), ("run2", "2\n"), ("run3", "1\n")):
        (source / "f").write_text(text)
        runner.apply(PutTree("put", str(source), str(tree)), run=run)
    for later in ("run3", "run2"):
        there = (tree / "f").read_text()
        assert f"run {later} has made this change since" in runner.undo("run1").detail("failed")
        assert (tree / "f").read_text() == there
        assert (1, "changed") in runner.undo(later).events(1)
    assert (tree / "f").read_text() == "1\n"
    shutil.rmtree(tree)
    tree.mkdir()
    (tree / "by hand").write_text("h\n")
    assert "is not the tree that this run wrote" in runner.undo("run1").detail("failed")
    assert runner.contents() == {"tree/by hand": b"h\n"}
    assert (1, "changed") in runner.undo("run1", force=True).events(1)
    assert runner.snapshot() == before


def test_a_tree_that_somebody_puts_there_before_a_run_goes_on_is_left_alone(runner, tmp_path):
    source, tree = tmp_path / "source", runner.root / "tree"
    source.mkdir()
    (source / "f").write_text("new\n")
    put = PutTree("put", str(source), str(tree))
    runner.apply(put)
    shutil.rmtree(tree)
    tree.mkdir()
    (tree / "by hand").write_text("h\n")
    ran = runner.apply(put)
    assert ran.events(1) == [(1, "begin"), (1, "failed")]
    assert "was created by another program during this run" in ran.detail("failed")
    assert runner.contents() == {"tree/by hand": b"h\n"}
    shutil.rmtree(tree)
    assert (1, "changed") in runner.apply(put).events(1)


def test_a_tree_that_does_not_fit_leaves_nothing_of_itself_on_the_full_disk(runner, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_text("new\n")
    runner.prelude = 'tar() { touch "$4/half"; return 1; }\n'
    ran = runner.apply(PutTree("put", str(source), str(runner.root / "tree")))
    assert "cannot unpack" in ran.detail("failed")
    assert runner.contents() == {}


def test_a_link_where_a_tree_goes_comes_back_as_a_link(runner, tmp_path):
    source, tree = tmp_path / "source", runner.root / "tree"
    source.mkdir()
    (source / "f").write_text("new\n")
    (runner.root / "elsewhere").mkdir()
    (runner.root / "elsewhere/mine").write_text("mine\n")
    tree.symlink_to("elsewhere")
    before = runner.snapshot()
    runner.apply(PutTree("put", str(source), str(tree)))
    assert (tree / "f").read_text() == "new\n"
    runner.undo()
    assert tree.readlink().name == "elsewhere"
    assert runner.snapshot() == before
