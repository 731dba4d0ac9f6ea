"""The node's journal and its lock: which run is undone, who is refused, and what an interrupted run leaves."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from clusterctl.apply import script
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.steps import Command, WriteFile, WriteValue


def test_undo_is_repeatable_and_leaves_a_short_history(runner):
    runner.apply(WriteFile("x", str(runner.root / "f"), "x"))
    assert runner.undo().detail("run") == "run1"
    assert "nothing to undo" in runner.undo().detail("nothing")
    assert "has already been undone" in runner.undo(run="run1").detail("nothing")
    left = sorted(p.name for p in (runner.state / "journal/run1").iterdir())
    assert left == ["history", "operator", "order", "time", "undone"]
    assert "test: x" in (runner.state / "journal/run1/history").read_text()


def test_the_latest_run_is_undone_first_and_each_gives_back_its_own_prior(runner):
    path = runner.root / "f"
    path.write_text("0")
    # Names sort the other way: the node's own count decides, not a controller's clock.
    runner.apply(WriteFile("x", str(path), "1"), run="zz")
    runner.apply(WriteFile("x", str(path), "2"), run="aa")
    assert (1, "failed") in runner.undo(run="zz").events(1)
    assert runner.undo().detail("run") == "aa"
    assert path.read_text() == "1"
    assert runner.undo().detail("run") == "zz"
    assert path.read_text() == "0"


def test_what_a_later_run_has_made_again_is_not_taken_back_with_an_earlier_one(runner):
    value, mark, mended = (runner.root / name for name in ("value", "mark", "mended"))
    steps = (
        WriteValue("v", str(value), "b", "a"),
        Command("c", ("touch", str(mark)), ("rm", "-f", str(mark)), ("test", "-e", str(mark))),
        Command("without an undo", ("touch", str(mended)), None),
    )
    for run in ("early", "late"):
        # Another user, or a reboot, has taken it back in between.
        value.write_text("a\n")
        mark.unlink(missing_ok=True)
        runner.apply(*steps, run=run)
    assert [(r.number, r.event.value) for r in runner.list("early").records if r.number] == [
        *((3, "entry"), (3, "would")),
        *((2, "entry"), (2, "would"), (2, "note")),
        *((1, "entry"), (1, "would"), (1, "note")),
    ]
    refused = [r for r in runner.undo("early").records if r.event.value in ("failed", "changed")]
    assert [(r.number, r.event.value) for r in refused] == [(3, "changed"), (2, "failed"), (1, "failed")]
    assert all("run late has made this change since: undo that run first" in r.detail for r in refused[1:])
    assert (value.read_text(), mark.exists()) == ("b\n", True)
    runner.undo("late")
    assert (value.read_text(), mark.exists()) == ("a\n", False)
    runner.apply(steps[0], run="later")
    assert (1, "changed") in runner.undo("early", force=True).events(1)
    assert value.read_text() == "a\n"


def test_a_run_that_was_undone_is_not_continued(runner):
    step = WriteFile("x", str(runner.root / "f"), "x")
    runner.apply(step)
    runner.undo()
    assert "has been undone" in runner.apply(step).detail("refused")
    assert not (runner.root / "f").exists()


def test_a_listing_changes_nothing_not_even_a_folder(runner):
    assert "nothing to undo" in runner.list().detail("nothing")
    assert not runner.state.exists()
    runner.apply(WriteFile("x", str(runner.root / "f"), "x"))
    before = sorted((runner.state).rglob("*"))
    assert runner.list().detail("entry") == "test x"
    assert sorted((runner.state).rglob("*")) == before


def test_when_all_is_so_already_no_journal_entry_is_left(runner):
    (runner.root / "f").write_text("x")
    (runner.root / "f").chmod(0o644)
    assert runner.apply(WriteFile("x", str(runner.root / "f"), "x")).events(1) == [(1, "unchanged")]
    assert list((runner.state / "journal").iterdir()) == []


def test_a_second_operator_is_refused_while_the_first_is_at_work(runner):
    slow = Command("slow", ("sleep", "60"), None)
    text = script.apply_script(runner.header("first"), NodePlan("n", (PlannedStep("t", slow),)))
    with subprocess.Popen(
        (*runner.shell, "-s"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as first:
        first.stdin.write(text.encode())
        first.stdin.close()
        assert b" start " in first.stdout.readline()
        refused = runner.apply(WriteFile("x", str(runner.root / "f"), "x"), run="second").detail("refused")
        holder = "busy: bootstrap of tester@here since "
        assert refused.startswith(holder) and f" (run first, process {first.pid})" in refused
        assert not (runner.root / "f").exists()
        # Asked before an apply or an undo, it answers the same and changes nothing.
        asked = runner.run_text(script.busy_script(runner.header("second")))
        assert asked.detail("refused").startswith(holder)
        listed = runner.run_text(script.list_script(runner.header("")))
        assert listed.detail("refused").startswith(holder) and len(listed.records) == 1
        # Killed without a chance to tidy up, it leaves its lock; the next run sees that its holder is gone.
        os.killpg(first.pid, signal.SIGKILL)
    assert (runner.state / "lock").exists()
    assert (1, "changed") in runner.apply(WriteFile("x", str(runner.root / "f"), "x"), run="second").events(1)
    assert not (runner.state / "lock").exists()


@pytest.mark.parametrize("content", ["", "garbage", "1 2 another-boot run who"])
def test_a_lock_of_another_boot_or_without_sense_is_taken_over(runner, content):
    runner.state.mkdir()
    (runner.state / "lock").write_text(content)
    assert runner.run_text(script.busy_script(runner.header("r"))).events(0) == [(0, "done")]
    assert (1, "changed") in runner.apply(WriteFile("x", str(runner.root / "f"), "x")).events(1)


def test_a_runner_that_was_killed_and_that_nobody_reaps_does_not_keep_its_lock(runner):
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with subprocess.Popen(("sleep", "60")) as dead:
        dead.kill()
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        started = Path(f"/proc/{dead.pid}/stat").read_text().rpartition(")")[2].split()[19]
        runner.state.mkdir()
        (runner.state / "lock").write_text(f"{dead.pid} {started} {boot} run who\n")
        assert (1, "changed") in runner.apply(WriteFile("x", str(runner.root / "x"), "")).events(1)


def test_a_process_id_used_again_does_not_keep_a_lock(runner):
    runner.state.mkdir()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (runner.state / "lock").write_text(f"{os.getpid()} 1 {boot} run who\n")
    assert (1, "changed") in runner.apply(WriteFile("x", str(runner.root / "f"), "x")).events(1)


def test_a_script_cut_off_on_its_way_does_nothing(runner):
    text = script.apply_script(
        runner.header("r"), NodePlan("n", (PlannedStep("t", WriteFile("x", str(runner.root / "f"), "x")),))
    )
    for part in (0.2, 0.5, 0.9, 0.999):
        subprocess.run(
            (*runner.shell, "-s"),
            input=text[: int(len(text) * part)].encode(),
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert runner.contents() == {}


def test_a_controller_that_is_gone_stops_the_run_before_the_next_step(runner):
    gone = runner.root.parent / "gone"
    wait = f"until [ -e {gone} ]; do sleep 0.05; done"
    first = Command("first", ("sh", "-c", f"{wait}; touch {runner.root}/first"), None)
    later = Command("later", ("touch", f"{runner.root}/later"), None)
    last = Command("last", ("touch", f"{runner.root}/last"), None)
    plan = NodePlan("n", tuple(PlannedStep("t", s) for s in (first, later, last)))
    text = script.apply_script(runner.header("r"), plan)
    with subprocess.Popen((*runner.shell, "-s"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(text.encode())
        process.stdin.close()
        while b"begin" not in process.stdout.readline():
            pass
        process.stdout.close()
        gone.touch()
        process.wait(60)
    assert (runner.root / "first").exists()
    assert not (runner.root / "last").exists()
    assert not (runner.state / "lock").exists()
    # The journal tells the next part of the run what was done.
    ran = runner.apply(*(s.step for s in plan.steps), run="r", requirement="t")
    assert any(r.event.value == "journal" and r.detail.startswith("done ") for r in ran.records)
    assert (runner.root / "last").exists()


def test_a_journal_that_cannot_be_written_changes_nothing(runner):
    runner.state.parent.joinpath("state").write_text("a file where the folder should be")
    ran = runner.apply(WriteFile("x", str(runner.root / "f"), "x"))
    assert "cannot be written" in ran.detail("refused")
    assert runner.contents() == {}


def test_two_runs_at_once_end_with_one_refused_or_both_in_turn(runner):
    """The lock is taken by one of many that start at the same moment."""
    texts = [
        script.apply_script(
            runner.header(f"r{i}"),
            NodePlan(
                "n",
                (
                    PlannedStep(
                        "t",
                        Command(
                            "c",
                            ("sh", "-c", f"mkdir {runner.root}/in && sleep 0.2 && rmdir {runner.root}/in"),
                            None,
                        ),
                    ),
                ),
            ),
        )
        for i in range(6)
    ]
    (runner.state).mkdir()
    (runner.state / "lock").write_text("1 2 another-boot stale who\n")
    processes = []
    for text in texts:
        process = subprocess.Popen((*runner.shell, "-s"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write(text.encode())
        process.stdin.close()
        processes.append(process)
    outputs = [process.stdout.read().decode() for process in processes]
    for process in processes:
        process.stdout.close()
        process.wait(30)
    assert not any(" 1 failed " in output for output in outputs), "two were inside at once"
    assert sum(" 1 changed" in output for output in outputs) >= 1

    assert not (runner.state / "lock").exists()


@pytest.mark.parametrize("all_of_it", [True, False])
def test_a_journal_that_goes_away_beneath_an_undo_fails_the_steps_that_it_held(runner, all_of_it):
    """As when its file system is unmounted: nothing is restored from entries that cannot be read."""
    file, mark, aside = runner.root / "f", runner.root / "mark", runner.root.parent / "aside"
    lost = runner.state if all_of_it else runner.state / "journal/run1/0001"
    runner.apply(
        WriteFile("a file", str(file), "x"),
        Command("it", ("touch", str(mark)), ("mv", str(lost), str(aside))),
    )
    ran = runner.undo()
    said = [(r.event.value, r.detail) for r in ran.records if r.number == 1]
    assert said[0] == ("entry", "unknown step 0001 of the run")
    assert said[1][0] == "failed"
    assert f"the step's journal entry cannot be read: {runner.state}/journal/run1/0001" in said[1][1]
    assert ran.events(2)[-1] == (2, "failed" if all_of_it else "changed")
    assert file.read_text() == "x"
    aside.rename(lost)
    mark.unlink()
    (runner.state / "lock").unlink(missing_ok=True)
    # The command's own undo would move the journal again: it is forgotten here, as if a user had fixed it.
    (runner.state / "journal/run1/0002/undone").write_text("now\n")
    assert runner.undo().events(1)[-1] == (1, "changed")
    assert not file.exists()
