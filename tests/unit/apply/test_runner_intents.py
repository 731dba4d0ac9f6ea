"""The list of an undo says what undo will do with each step, in its own words and not in those of the change."""

from __future__ import annotations

from clusterctl.apply.undo import _Follower
from clusterctl.requirements.steps import (
    Command,
    EnableUnit,
    PutTree,
    RestartUnit,
    WriteBlock,
    WriteFile,
    WriteValue,
)


def _listed(runner):
    follower = _Follower()
    for record in runner.list().records:
        follower.follow(record)
    return follower.outcome(None).steps


def test_each_step_is_taken_back_in_words_of_its_own(runner, tmp_path):
    new, old, mine, value, empty = (runner.root / name for name in ("new", "old", "mine", "value", "empty"))
    old.write_text("one\nPASSWORD=hunter22\n")
    old.chmod(0o640)
    mine.write_text("mine\n# BEGIN clusterctl mesh\nhad\n# END clusterctl mesh\n")
    value.write_text("a\n")
    empty.write_text("\n")
    source = tmp_path / "source"
    source.mkdir()
    (source / "Makefile").write_text("all:\n")
    made = runner.apply(
        WriteFile("d", str(new), "x\n"),
        WriteFile("d", str(old), "one\nPASSWORD=hunter33\ntwo\n"),
        WriteBlock("d", str(mine), "mesh", "has"),
        WriteBlock("d", str(mine), "other", "x"),
        WriteValue("d", str(value), "b", "a"),
        WriteValue("d", str(empty), "b", ""),
        Command("make a mark", ("touch", str(runner.root / "mark")), ("rm", "-f", str(runner.root / "mark"))),
        Command("build it", ("true",), None),
        PutTree("d", str(source), str(runner.root / "tree")),
    )
    assert [event for _, event in made.events()].count("changed") == 9
    before = runner.snapshot()
    steps = _listed(runner)
    assert [step.undo for step in reversed(steps)] == [
        f"- remove {new}",
        f"~ restore {old} (640 root)",
        f"~ restore the block mesh in {mine}",
        f"- remove the block other from {mine}",
        f"~ write a to {value}",
        f"~ clear {empty}",
        "~ take back: make a mark",
        ". nothing to take back: build it",
        f"- remove the directory {runner.root / 'tree'}",
    ]
    diffs = [step.diff for step in reversed(steps)]
    assert diffs[1] == (
        "@@ -1,3 +1,2 @@",
        "  one",
        "- PASSWORD=********",
        "- two",
        "+ PASSWORD=********",
    )
    assert not any(diffs[:1] + diffs[2:])
    assert runner.snapshot() == before
    assert runner.undo().returncode == 0
    assert old.read_text() == "one\nPASSWORD=hunter22\n"


def test_a_unit_returns_to_the_state_that_it_had(runner):
    folder = runner.root
    systemctl = f"""cd {folder}
case $1 in
  is-enabled) [ -e "$2.enabled" ] && echo enabled || echo disabled ;;
  is-active) [ -e "$2.active" ] && echo active || echo inactive ;;
  enable) touch "$2.enabled" ;;
  start) touch "$2.active" ;;
esac
"""
    env = runner.stand_ins(systemctl=systemctl)
    (folder / "runs.active").touch()
    (folder / "enabled.enabled").touch()
    runner.apply(EnableUnit("d", "new"), EnableUnit("d", "runs"), EnableUnit("d", "enabled"),
                 RestartUnit("d", "runs"), env=env)  # fmt: skip
    assert [step.undo for step in _listed(runner)] == [
        "- stop enabled",
        "- disable runs",
        "- stop and disable new",
        "~ restart runs",
    ]
