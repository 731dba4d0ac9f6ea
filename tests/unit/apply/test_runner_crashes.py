"""Power loss at every boundary: the runner is killed before each change it makes on disk.

After any of these crashes, continuing the run reaches the state after, and undo reaches the state before.
Shell functions that stand before ``mv``, ``sync`` and the like count the boundaries and kill the shell at one of
them; the runner itself knows nothing of this.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from python_stand_in import PYTHON
from soak import SOAK

from clusterctl.requirements.steps import Command, MakeVenv, PutTree, WriteFile, WriteValue

# The first boundary and the stride of each shell: together they take each boundary once. Without a soak, fewer.
STRIDES = (
    {"dash": (1, 2), "busybox": (2, 4), "bash": (4, 4)}
    if SOAK
    else {"dash": (1, 8), "busybox": (2, 16), "bash": (4, 16)}
)
COUNTED = ("mv", "sync", "cp", "rm", "mkdir", "rmdir", "chmod", "chown", "ln", "tar", "timeout")

PRELUDE = """
TICK=0
tick() { TICK=$((TICK + 1)); [ "$TICK" != "$CRASH_AT" ] || { kill -9 $$; exit 137; }; }
""" + "".join(f"""{name}() {{ tick; command {name} "$@"; }}\n""" for name in COUNTED)

COUNT = '; tick; record 0 note "$TICK"\n'


class Node:
    """A node with files to change, the steps that change them, and what it looks like before and after."""

    def __init__(self, runner, source):
        self.runner = runner
        mark = runner.root / "mark"
        self.steps = (
            WriteFile("a new file", str(runner.root / "etc/d/new"), "new\n"),
            WriteFile("an old file", str(runner.root / "old"), "changed\n", 0o644),
            WriteValue("a value", str(runner.root / "value"), "b", "a"),
            PutTree("a tree", str(source), str(runner.root / "tree")),
            Command("a command", ("touch", str(mark)), ("rm", "-f", str(mark)), ("test", "-e", str(mark))),
            MakeVenv("a venv", str(runner.root / "opt/venv"), str(source / "python3"), "made a", "", ("a",)),
        )
        self.fresh()
        self.before = _state(runner)
        self.apply()
        self.after = runner.contents()
        assert self.after["old"] == b"changed\n"
        assert set(self.after) == {
            "etc/d/new",
            "old",
            "value",
            "tree/Makefile",
            "tree/.clusterctl-tree",
            "tree/python3",
            "mark",
            "opt/venv/.clusterctl-venv",
            "opt/venv/bin/python3",
            "opt/venv/installed",
        }

    def fresh(self):
        root = self.runner.root
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(self.runner.state, ignore_errors=True)
        root.mkdir(parents=True)
        (root / "old").write_text("old\n")
        (root / "old").chmod(0o600)
        (root / "value").write_text("a\n")
        (root / "tree").mkdir()
        (root / "tree/mine").write_text("mine\n")
        for name in ("old", "tree/mine"):
            os.utime(root / name, (10**9, 10**9))

    def apply(self, crash_at=0):
        return self.runner.apply(*self.steps, env={"CRASH_AT": str(crash_at)})

    def undo(self, crash_at=0):
        return self.runner.undo(env={"CRASH_AT": str(crash_at)})


@pytest.fixture
def nodes(runner, tmp_path):
    """A node for each of two processors: a boundary takes three runs of a shell, and there are many."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "Makefile").write_text("all:\n")
    (source / "python3").write_text(PYTHON)
    (source / "python3").chmod(0o755)
    places = (tmp_path / "first", tmp_path / "second")
    runners = (
        replace(runner, root=p / "root", state=p / "state", prelude=PRELUDE, ending=COUNT) for p in places
    )
    return [Node(one, source) for one in runners]


def _each(nodes, total, check):
    """Call ``check(node, point)`` for the boundaries of this shell, on all nodes at once."""
    start, stride = STRIDES[nodes[0].runner.shell[0]]
    points = range(start, total + 1, stride)

    def share(number):
        for point in points[number :: len(nodes)]:
            check(nodes[number], point)

    with ThreadPoolExecutor(len(nodes)) as threads:
        for _ in threads.map(share, range(len(nodes))):
            pass


def _state(runner):
    """All there is, but for the time of the value: files in sysfs, which it stands for, keep none."""
    found = runner.snapshot()
    found["value"] = found["value"][:4]
    return found


def _ticks(ran):
    return int(next(r.detail for r in ran.records if r.number == 0 and r.event.value == "note"))


def _told(ran, index):
    """The last word on a step, or None."""
    return next((r.event.value for r in reversed(ran.records) if r.number == index), None)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_after_a_crash_anywhere_the_run_can_be_continued_and_then_undone(nodes):
    nodes[0].fresh()
    total = _ticks(nodes[0].apply())
    assert total > 40

    def check(node, point):
        node.fresh()
        crashed = node.apply(point)
        assert crashed.returncode == -9, f"boundary {point} of {total} was not reached"
        resumed = node.apply()
        assert node.runner.contents() == node.after, f"crash at boundary {point} of {total}, then resume"
        for index in range(1, len(node.steps) + 1):
            # A change whose record was lost with the crash must be reported by the part that follows.
            told = _told(resumed, index)
            assert told == "changed" or (told == "unchanged" and _journalled(resumed)), (point, index, told)
        node.undo()
        assert _state(node.runner) == node.before, (
            f"crash at boundary {point} of {total}, then resume, then undo"
        )

    _each(nodes, total, check)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_after_a_crash_anywhere_undo_restores_what_was_before(nodes):
    nodes[0].fresh()
    total = _ticks(nodes[0].apply())

    def check(node, point):
        node.fresh()
        node.apply(point)
        node.undo()
        assert _state(node.runner) == node.before, f"crash at boundary {point} of {total}, then undo"

    _each(nodes, total, check)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_after_a_crash_anywhere_in_undo_another_undo_finishes(nodes):
    nodes[0].fresh()
    nodes[0].apply()
    total = _ticks(nodes[0].undo())
    assert total > 20

    def check(node, point):
        node.fresh()
        node.apply()
        assert node.undo(point).returncode == -9
        node.undo()
        assert _state(node.runner) == node.before, (
            f"undo cut off at boundary {point} of {total}, then repeated"
        )

    _each(nodes, total, check)


def _journalled(ran):
    return any(r.event.value == "journal" and r.detail.startswith("done ") for r in ran.records)
