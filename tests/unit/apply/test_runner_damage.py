"""A damaged journal: undo restores what is intact, reports the rest as failed, and keeps the damaged entries."""

from __future__ import annotations

import os
import random
import shutil
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from soak import SOAK, spread

from clusterctl.requirements.steps import Command, PutTree, WriteBlock, WriteFile, WriteValue
from tests.unit.apply.conftest import Runner

CASES = {"dash": 200, "busybox": 40, "bash": 40} if SOAK else {"dash": 20, "busybox": 8, "bash": 8}
# What a power loss would leave is the matter of test_runner_crashes.py.
PRELUDE = "sync() { :; }\n"
SINGLE = "wrote only by the earlier run\n"


@dataclass
class Node:
    """Two runs on one node; the later one, ``run1``, takes one step of each kind that keeps a prior value."""

    runner: Runner
    saved: Path
    changed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By entry of ``run1``, the names below ``root`` that it changes."""

    def __post_init__(self) -> None:
        root = self.runner.root
        self.runner.prelude = PRELUDE
        (root / "old").write_text("old\n")
        (root / "old").chmod(0o600)
        (root / "block").write_text("mine\nnot ended")
        (root / "value").write_text("a\n")
        (root / "tree").mkdir()
        (root / "tree/mine").write_text("mine\n")
        (root / "tree/link").symlink_to("mine")
        source = self.saved / "source"
        source.mkdir(parents=True)
        (source / "Makefile").write_text("all:\n")
        for name in ("old", "block", "tree/mine"):
            os.utime(root / name, (10**9, 10**9))
        self.runner.apply(WriteFile("earlier", str(root / "earlier"), SINGLE), run="run0")
        self.before = self.look()
        mark = root / "mark"
        steps = {
            "0001": (WriteFile("a new file", str(root / "d/new"), "new\n"), ("d", "d/new")),
            "0002": (WriteFile("an old file", str(root / "old"), "changed\n"), ("old",)),
            "0003": (WriteBlock("a block", str(root / "block"), "x", "inside\n"), ("block",)),
            "0004": (WriteValue("a value", str(root / "value"), "b", "a"), ("value",)),
            "0005": (
                PutTree("a tree", str(source), str(root / "tree")),
                ("tree", "tree/mine", "tree/link", "tree/Makefile", "tree/.clusterctl-tree"),
            ),
            "0006": (
                Command("a command", ("touch", str(mark)), ("rm", str(mark)), ("test", "-e", str(mark))),
                ("mark",),
            ),
        }
        ran = self.runner.apply(*(step for step, _ in steps.values()))
        assert [r.event.value for r in ran.records if r.number and r.event.value == "failed"] == []
        self.changed = {number: names for number, (_, names) in steps.items()}
        self.after = self.look()
        for name in ("root", "state"):
            shutil.copytree(root.parent / name, self.saved / name, symlinks=True)

    @property
    def journal(self) -> Path:
        return self.runner.state / "journal"

    def look(self):
        """What is below root, without the times of directories and of the value (sysfs keeps none)."""
        found = self.runner.snapshot()
        found["value"] = found["value"][:4]
        return {
            name: (*what[:4], *(what[4:] if stat.S_ISREG(what[0]) else ())) for name, what in found.items()
        }

    def fresh(self) -> None:
        """Undo what a test has changed."""
        self.runner.prelude = PRELUDE
        for name in ("root", "state"):
            shutil.rmtree(self.runner.root.parent / name)
            shutil.copytree(self.saved / name, self.runner.root.parent / name, symlinks=True)

    def restored(self, number: str) -> bool:
        now = self.look()
        return all(now.get(name) == self.before.get(name) for name in self.changed[number])

    def verdicts(self, ran) -> dict[str, str]:
        """The last event of each entry."""
        return {f"{r.number:04d}": r.event.value for r in ran.records if r.number and r.event.value != "note"}

    def check(self, ran, damaged: str | None, what: str) -> None:
        """Nothing is silently wrong; ``damaged`` is the one entry that may have failed."""
        refused = [r.detail for r in ran.records if r.event.value == "refused"]
        if refused:
            assert damaged is None, what
            assert self.look() == self.after, what
            return
        assert ran.detail("run") == "run1", what
        verdicts = self.verdicts(ran)
        assert set(verdicts) == set(self.changed), what
        for number, verdict in verdicts.items():
            assert verdict in ("changed", "failed"), what
            if verdict == "changed":
                assert self.restored(number), (what, number)
            else:
                assert number == damaged, (what, number)
                reason = next(
                    r.detail for r in ran.records if r.number == int(number) and r.event.value == "failed"
                )
                assert str(self.journal / "run1" / number) in reason, what
                assert not (self.journal / "run1" / number / "undone").exists(), what
                assert not (self.journal / "run1" / "undone").exists(), what
        assert self.look().get("earlier") == self.before["earlier"], what


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The nodes whose two runs were applied before, by shell."""
    return {}, tmp_path_factory


@pytest.fixture
def node(shell, built):
    """The node of a shell, as its two runs left it."""
    nodes, folders = built
    if shell not in nodes:
        place = folders.mktemp("node")
        (place / "root").mkdir()
        nodes[shell] = Node(Runner(shell, place / "root", place / "state"), place / "saved")
    nodes[shell].fresh()
    return nodes[shell]


def _damage(rng: random.Random, path: Path, others: list[Path]) -> str:
    """Damage one file in one way; return the way."""
    content = path.read_bytes()
    way = rng.choice(
        ("flip", "cut", "empty", "random", "remove", "link", "dangle", "folder", "copy", "append")
    )
    if way == "flip":
        at = rng.randrange(len(content)) if content else 0
        path.write_bytes(
            content[:at]
            + bytes([(content[at : at + 1] or b"\0")[0] ^ rng.randrange(1, 256)])
            + content[at + 1 :]
        )
    elif way == "cut":
        path.write_bytes(content[: rng.randrange(len(content))] if content else b"")
    elif way == "empty":
        path.write_bytes(b"")
    elif way == "random":
        path.write_bytes(rng.randbytes(rng.choice((len(content), 1, 4096))))
    elif way == "append":
        path.write_bytes(content + rng.randbytes(rng.randrange(1, 64)))
    elif way == "copy":
        path.write_bytes(rng.choice(others).read_bytes())
    else:
        path.unlink()
        if way == "link":
            path.symlink_to(rng.choice(others))
        elif way == "dangle":
            path.symlink_to("nowhere")
        elif way == "folder":
            path.mkdir()
    return way


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_no_damage_to_one_file_is_restored_from_or_passed_over(node):
    """Seeded: any one file of the journal is flipped, cut, emptied, replaced, removed, linked."""
    failed = refused = 0
    for case in range(CASES[node.runner.shell[0]]):
        rng = random.Random(f"{node.runner.shell[0]} {case}")
        node.fresh()
        files = [p for p in sorted(node.journal.rglob("*")) if p.is_file() and not p.is_symlink()]
        path = rng.choice(files)
        inside = path.relative_to(node.journal).parts
        what = f"case {case}: {'/'.join(inside)}: {_damage(rng, path, [p for p in files if p != path])}"
        ran = node.runner.undo()
        # A damaged order may stop the choice of the latest run; a damaged entry fails alone.
        if inside[1] == "order":
            refused += any(r.event.value == "refused" and str(path) in r.detail for r in ran.records)
            node.check(ran, None, what)
        else:
            damaged = inside[1] if inside[0] == "run1" and inside[1].isdigit() else None
            assert (0, "done") in ran.events(0), what
            node.check(ran, damaged, what)
            failed += "failed" in node.verdicts(ran).values()
    assert failed > CASES[node.runner.shell[0]] // 3
    assert refused or len(files) > CASES[node.runner.shell[0]]


@pytest.mark.parametrize("content", [b"", b"ol", b"\0\xff\x1b[31m random", b"old\nand more", None, "link"])
def test_a_prior_that_is_not_the_recorded_one_is_not_restored(node, content):
    prior = node.journal / "run1/0002/prior"
    prior.unlink()
    if content == "link":
        prior.symlink_to("/etc/hostname")
    elif content is not None:
        prior.write_bytes(content)
    listed = node.runner.list()
    assert node.verdicts(listed)["0002"] == "failed"
    assert node.look() == node.after
    ran = node.runner.undo()
    node.check(ran, "0002", "prior")
    assert node.verdicts(ran)["0002"] == "failed"
    assert (node.runner.root / "old").read_text() == "changed\n"
    reason = ran.detail("failed")
    assert "prior" in reason
    assert str(node.runner.root / "old") in reason
    # --force is for what others changed; it does not make damaged bytes good.
    assert node.verdicts(node.runner.undo(force=True)) == {"0002": "failed"}
    # By hand, as the reason describes.
    (node.journal / "run1/0002/undone").touch()
    assert (0, "done") in node.runner.undo().events(0)
    assert (node.journal / "run1/undone").exists()


ORDERS = (b"", b"x", b"9", b"9\n", b"2\n9 run1\n", b"2\n2 run1", b"\0\n\xff", None, "link")


ORDERS_OF = [
    (shell, run, damage)
    for shell, run in (("dash", "run0"), ("dash", "run1"), ("bash", "run0"), ("busybox", "run1"))
    for damage in ORDERS
]


@pytest.mark.soak
@pytest.mark.parametrize(("shell", "run", "damage"), spread(ORDERS_OF, 12), indirect=["shell"])
def test_entries_whose_run_has_no_sound_order_are_an_error_until_the_run_is_named(node, run, damage):
    order = node.journal / run / "order"
    order.unlink()
    if damage == "link":
        order.symlink_to(node.journal / ("run0" if run == "run1" else "run1") / "order")
    elif damage is not None:
        order.write_bytes(damage)
    for ran in (node.runner.list(), node.runner.undo()):
        assert str(order) in ran.detail("refused")
        assert "which run is the latest" in ran.detail("refused")
        assert not any(r.number for r in ran.records)
    assert node.look() == node.after
    ran = node.runner.undo(run="run1")
    assert set(node.verdicts(ran).values()) == {"changed"}
    assert {name: what for name, what in node.look().items() if what != node.before.get(name)} == {}
    assert (1, "changed") in node.runner.undo(run="run0").events(1)
    assert not (node.runner.root / "earlier").exists()
    # A new run comes behind those whose number is lost.
    node.runner.apply(WriteFile("x", str(node.runner.root / "x"), "x"), run="run2")
    assert node.runner.list().detail("run") == "run2"
    first, second = (node.journal / "run2/order").read_text().splitlines()
    assert int(first) > 2
    assert second == f"{first} run2"


@pytest.mark.parametrize("name", ["lock", "journal/run1/0001/undone", "journal/run1/0001/key"])
def test_a_pipe_in_the_journal_holds_nothing_up(node, name):
    pipe = node.runner.state / name
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    began = time.monotonic()
    assert node.runner.undo("run1").events(0)[-1][1] in ("done", "refused")
    assert time.monotonic() - began < 50


# What else than its own plain file may stand at a name of an entry.
SPECIAL = {
    "a pipe": os.mkfifo,
    "a link to a pipe": lambda path: (os.mkfifo(f"{path}.pipe"), path.symlink_to(f"{path}.pipe")),
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "a device without an end": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),
    "a link to one": lambda path: path.symlink_to("/dev/zero"),
    "a device that is always full": lambda path: path.symlink_to("/dev/full"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to the file of another entry": lambda path: path.symlink_to(f"../0001/{path.name}"),
    "another name of the file of another entry": lambda path: os.link(path.parents[1] / "0001/target", path),
    "a directory": lambda path: path.mkdir(),
}


@pytest.mark.soak
@pytest.mark.parametrize("kind", spread(list(SPECIAL), 2))
@pytest.mark.parametrize("shell", [("dash",)])
def test_no_special_file_in_an_entry_of_the_journal_holds_the_others_up(runner, kind, tier_unavailable):
    """In each entry of a run, another file is special."""
    if os.geteuid() != 0:
        tier_unavailable("only root makes devices")
    runner.prelude = PRELUDE
    probe = runner.root / "probe"
    probe.write_text("old\n")
    runner.apply(WriteFile("a file", str(probe), "new\n"), run="probe")
    names = sorted(
        path.name for path in (runner.state / "journal/probe/0001").iterdir() if path.name != "done"
    )
    assert (0, "done") in runner.undo("probe").events(0)
    cases = [*names, "undone"]
    assert len(cases) * len(SPECIAL) >= 100
    files = [runner.root / f"old{number}" for number in range(len(cases) + 2)]
    for path in files:
        path.write_text("old\n")
    runner.apply(*(WriteFile("a file", str(path), "new\n") for path in files))
    for number, name in enumerate(cases, 2):  # the first and the last entry are honest
        path = runner.state / f"journal/run1/{number:04d}/{name}"
        path.unlink(missing_ok=True)
        SPECIAL[kind](path)
    began = time.monotonic()
    ran = runner.undo("run1")
    assert (0, "done") in ran.events(0)
    assert time.monotonic() - began < 50
    last = {one.number: one for one in ran.records if one.number and one.event.value in ("changed", "failed")}
    for number, path in enumerate(files, 1):
        case = cases[number - 2] if 1 < number < len(files) else None
        now = path.read_text()
        if case is None:
            assert (last[number].event.value, now) == ("changed", "old\n"), number
        elif number not in last:
            # Root's own mark that the entry was undone by hand, see docs/threat-model.md.
            assert (case, now) == ("undone", "new\n"), case
        elif last[number].event.value == "changed":
            assert now == "old\n", case
        else:
            assert now == "new\n" and f"journal/run1/{number:04d}" in last[number].detail, (
                case,
                last[number].detail,
            )


def test_two_runs_with_the_same_place_in_the_order_are_an_error(node):
    for run in ("run0", "run1"):
        (node.journal / run / "order").write_text(f"2\n2 {run}\n")
    assert "which run is the latest" in node.runner.undo().detail("refused")


@pytest.mark.parametrize("number", ["0001", "0003", "0005"])
def test_an_entry_that_is_missing_among_others_is_reported(node, number):
    shutil.rmtree(node.journal / "run1" / number)
    ran = node.runner.undo()
    node.check(ran, number, f"{number} is missing")
    assert node.verdicts(ran)[number] == "failed"


@pytest.mark.parametrize("what", ["run1", "run1/0002"])
@pytest.mark.parametrize("by", ["link", "file"])
def test_a_directory_of_the_journal_that_was_replaced_is_not_followed(node, what, by, tmp_path):
    (node.journal / what).rename(tmp_path / "aside")
    if by == "link":
        (node.journal / what).symlink_to(tmp_path / "aside")
    else:
        (node.journal / what).write_text("a file")
    ran = node.runner.undo(run="run1")
    if what == "run1":
        assert f"{node.journal}/run1 is not a directory" in ran.detail("refused")
        assert node.look() == node.after
    else:
        node.check(ran, "0002", what)
        assert node.verdicts(ran)["0002"] == "failed"


@pytest.mark.parametrize("number", ["0001", "0006"])
def test_an_entry_without_a_seal_is_not_restored_from(node, number):
    (node.journal / "run1" / number / "seal").unlink()
    ran = node.runner.undo()
    node.check(ran, number, f"{number} has no seal")
    assert "seal is missing" in ran.detail("failed")
    assert node.verdicts(ran)[number] == "failed"


@pytest.mark.parametrize(
    ("number", "name"),
    [("0001", "absent"), ("0002", "prior"), ("0002", "target"), ("0003", "name"), ("0004", "prior"),
     ("0005", "path"), ("0006", "undo"), ("0004", "kind"), ("0006", "key")],
)  # fmt: skip
def test_an_entry_sealed_without_a_needed_field_is_reported(node, number, name):
    (node.journal / "run1" / number / name).unlink()
    node.runner.seal_again()
    ran = node.runner.undo()
    node.check(ran, number, name)
    assert node.verdicts(ran)[number] == "failed"
    assert name in next(r.detail for r in ran.records if r.event.value == "failed")


def test_a_damaged_entry_is_not_tried_again_and_sealed(node):
    """A second part of the run would otherwise record the damaged bytes as sound."""
    step = WriteFile("an old file", str(node.runner.root / "old"), "changed\n")
    (node.journal / "run1/0002/prior").write_text("damaged\n")
    (node.runner.root / "old").write_text("somebody's\n")
    ran = node.runner.apply(step)
    assert "is damaged" in ran.detail("failed")
    assert (node.runner.root / "old").read_text() == "somebody's\n"


def test_what_a_second_try_writes_to_an_entry_is_sealed_too(node):
    path = node.runner.root / "old"
    node.runner.apply(WriteFile("another text", str(path), "changed again\n"))
    assert path.read_text() == "changed again\n"
    ran = node.runner.undo()
    assert set(node.verdicts(ran).values()) == {"changed"}
    assert node.look() == node.before


def test_a_copy_that_differs_from_what_was_recorded_does_not_replace_the_file(node):
    """As of a disk that fails between the check and the copy."""
    cp = shutil.which("cp")
    env = node.runner.stand_ins(
        cp=f'{cp} "$@" || exit\ncase "$2" in */0002/prior) eval "last=\\${{$#}}"; echo torn >"$last" ;; esac\n'
    )
    node.runner.prelude += f'cp() {{ {node.runner.root.parent}/bin/cp "$@"; }}\n'
    ran = node.runner.undo(env=env)
    node.check(ran, "0002", "copy")
    assert "changed while it was read" in ran.detail("failed")
    assert (node.runner.root / "old").read_text() == "changed\n"


def test_a_node_without_sha256sum_is_refused_before_anything_is_changed(runner):
    runner.prelude = 'command() { [ "$2" != sha256sum ]; }\n'
    step = WriteValue("v", str(runner.root / "value"), "b", "a")
    (runner.root / "value").write_text("a\n")
    for ran in (runner.apply(step), runner.undo(), runner.list()):
        assert "sha256sum is not installed" in ran.detail("refused")
    assert (runner.root / "value").read_text() == "a\n"
