"""Power loss at every boundary: the runner is killed before each change it makes on disk.

After any of these crashes, continuing the run reaches the state after, and undo reaches the state before.
Shell functions that stand before ``mv``, ``sync`` and the like count the boundaries and kill the shell at one of
them; the runner itself knows nothing of this.
"""

from __future__ import annotations

import os
import shutil

import pytest

from clusterctl.requirements.base import Command, PutTree, WriteFile, WriteValue

COUNTED = ("mv", "sync", "cp", "rm", "mkdir", "rmdir", "chmod", "chown", "ln", "tar", "timeout")

PRELUDE = """
TICK=0
tick() { TICK=$((TICK + 1)); [ "$TICK" != "$CRASH_AT" ] || { kill -9 $$; exit 137; }; }
""" + "".join(f"""{name}() {{ tick; command {name} "$@"; }}\n""" for name in COUNTED)

COUNT = '; tick; record 0 note "$TICK"\n'


@pytest.fixture
def crashing(runner, tmp_path):
    """A node with files to change, the steps that change them, and what it looks like before and after."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "Makefile").write_text("all:\n")

    def fresh():
        shutil.rmtree(runner.root)
        shutil.rmtree(runner.state, ignore_errors=True)
        runner.root.mkdir()
        (runner.root / "old").write_text("old\n")
        (runner.root / "old").chmod(0o600)
        (runner.root / "value").write_text("a\n")
        (runner.root / "tree").mkdir()
        (runner.root / "tree/mine").write_text("mine\n")
        for name in ("old", "tree/mine"):
            os.utime(runner.root / name, (10**9, 10**9))

    mark = runner.root / "mark"
    steps = (
        WriteFile("a new file", str(runner.root / "etc/d/new"), "new\n"),
        WriteFile("an old file", str(runner.root / "old"), "changed\n", 0o644),
        WriteValue("a value", str(runner.root / "value"), "b", "a"),
        PutTree("a tree", str(source), str(runner.root / "tree")),
        Command("a command", ("touch", str(mark)), ("rm", "-f", str(mark)), ("test", "-e", str(mark))),
    )
    runner.prelude = PRELUDE
    fresh()
    before = _state(runner)
    runner.apply(*steps, env={"CRASH_AT": "0"})
    after = runner.contents()
    assert after["old"] == b"changed\n"
    assert set(after) == {"etc/d/new", "old", "value", "tree/Makefile", "tree/.clusterctl-tree", "mark"}
    return runner, steps, fresh, before, after


def _state(runner):
    """All there is, but for the time of the value: files in sysfs, which it stands for, keep none."""
    found = runner.snapshot()
    found["value"] = found["value"][:4]
    return found


def _ticks(ran):
    return int(next(r.detail for r in ran.records if r.number == 0 and r.event.value == "note"))


def _points(runner, total):
    """The shells share the boundaries among them: dash the odd ones, the others two of every four."""
    start, stride = {"dash": (1, 2), "busybox": (2, 4), "bash": (4, 4)}[runner.shell[0]]
    return range(start, total + 1, stride)


def _told(ran, index):
    """The last word on a step, or None."""
    return next((r.event.value for r in reversed(ran.records) if r.number == index), None)


@pytest.mark.timeout(300)
def test_after_a_crash_anywhere_the_run_can_be_continued_and_then_undone(crashing, monkeypatch):
    runner, steps, fresh, before, after = crashing
    monkeypatch.setattr(type(runner), "run_text", _counting(type(runner).run_text))
    fresh()
    total = _ticks(runner.apply(*steps, env={"CRASH_AT": "0"}))
    assert total > 40
    for point in _points(runner, total):
        fresh()
        crashed = runner.apply(*steps, env={"CRASH_AT": str(point)})
        assert crashed.returncode == -9, f"boundary {point} of {total} was not reached"
        resumed = runner.apply(*steps, env={"CRASH_AT": "0"})
        assert runner.contents() == after, f"crash at boundary {point} of {total}, then resume"
        for index in range(1, len(steps) + 1):
            # A change whose record was lost with the crash must be reported by the part that follows.
            told = _told(resumed, index)
            assert told == "changed" or (told == "unchanged" and _journalled(resumed)), (point, index, told)
        runner.undo(env={"CRASH_AT": "0"})
        assert _state(runner) == before, f"crash at boundary {point} of {total}, then resume, then undo"


@pytest.mark.timeout(300)
def test_after_a_crash_anywhere_undo_restores_what_was_before(crashing, monkeypatch):
    runner, steps, fresh, before, _ = crashing
    monkeypatch.setattr(type(runner), "run_text", _counting(type(runner).run_text))
    fresh()
    total = _ticks(runner.apply(*steps, env={"CRASH_AT": "0"}))
    for point in _points(runner, total):
        fresh()
        runner.apply(*steps, env={"CRASH_AT": str(point)})
        runner.undo(env={"CRASH_AT": "0"})
        assert _state(runner) == before, f"crash at boundary {point} of {total}, then undo"


@pytest.mark.timeout(300)
def test_after_a_crash_anywhere_in_undo_another_undo_finishes(crashing, monkeypatch):
    runner, steps, fresh, before, _ = crashing
    monkeypatch.setattr(type(runner), "run_text", _counting(type(runner).run_text))
    fresh()
    runner.apply(*steps, env={"CRASH_AT": "0"})
    total = _ticks(runner.undo(env={"CRASH_AT": "0"}))
    assert total > 20
    for point in _points(runner, total):
        fresh()
        runner.apply(*steps, env={"CRASH_AT": "0"})
        assert runner.undo(env={"CRASH_AT": str(point)}).returncode == -9
        runner.undo(env={"CRASH_AT": "0"})
        assert _state(runner) == before, f"undo cut off at boundary {point} of {total}, then repeated"


def _counting(run_text):
    """Let every script say at its end how many boundaries it passed."""
    return lambda self, text, env=None: run_text(self, text.rstrip() + COUNT, env)


def _journalled(ran):
    return any(r.event.value == "journal" and r.detail.startswith("done ") for r in ran.records)
