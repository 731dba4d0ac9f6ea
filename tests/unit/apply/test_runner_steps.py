"""Each kind of step, run by the real shell program: changed, unchanged, failed, and taken back."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from clusterctl.apply import script
from clusterctl.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.base import (
    Command,
    EnableUnit,
    LoadModule,
    PutTree,
    RestartUnit,
    SetRegister,
    WriteFile,
    WriteValue,
)


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


def test_a_folder_in_the_way_fails_and_is_left_alone(runner):
    (runner.root / "conf").mkdir()
    before = runner.snapshot()
    ran = runner.apply(WriteFile("x", str(runner.root / "conf"), "new\n"))
    assert ran.events(1) == [(1, "failed")]
    assert "not a plain file" in ran.detail("failed")
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


def test_a_failing_step_stops_its_requirement_and_no_other(runner):
    bad = Command("bad", ("sh", "-c", "echo no luck >&2; exit 3"), None)
    good = WriteFile("good", str(runner.root / "f"), "x")
    ran = runner.apply(PlannedStep("a", bad), PlannedStep("a", good), PlannedStep("b", good))
    assert ran.detail("failed") == "exit status 3: no luck"
    assert (2, "skipped") in ran.events(2)
    assert (3, "changed") in ran.events(3)
    assert ran.events(0)[-1] == (0, "done")


def test_a_command_is_guarded_read_back_and_taken_back(runner):
    mark = runner.root / "mark"
    step = Command("c", ("touch", str(mark)), ("rm", "-f", str(mark)), ("test", "-e", str(mark)))
    assert runner.apply(step).events(1) == [(1, "begin"), (1, "changed")]
    assert runner.apply(step).events(1) == [(1, "unchanged")]
    runner.undo()
    assert not mark.exists()


def test_a_command_whose_guard_still_fails_is_a_failure(runner):
    ran = runner.apply(Command("c", ("true",), None, ("false",)))
    assert ran.events(1)[-1] == (1, "failed")


def test_a_command_past_its_time_limit_fails(runner):
    ran = runner.apply(Command("c", ("sleep", "30"), None, timeout_s=1))
    assert "time limit" in ran.detail("failed")


def test_a_command_cannot_forge_records_or_read_the_script(runner):
    ran = runner.apply(Command("c", ("sh", "-c", "cat; echo '@0123456789abcdef 1 failed '"), None))
    assert ran.events(1) == [(1, "begin"), (1, "changed")]


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


SETPCI = """
store={store}
case $3 in
  *=*) [ -n "${{3##*stuck*}}" ] && printf '%04x' "$((0x${{3#*=}}))" >"$store" ;;
  *) cat "$store" 2>/dev/null ;;
esac
"""


def test_a_register_is_compared_as_a_number_and_its_old_word_restored(runner):
    store = runner.root.parent / "register"
    store.write_text("001d")
    env = runner.stand_ins(setpci=SETPCI.format(store=store))
    step = SetRegister("clear", "0000:00:10.0", "ECAP_ACS+6.w", "0000", "1d")
    assert runner.apply(step, env=env).events(1) == [(1, "begin"), (1, "changed")]
    assert store.read_text() == "0000"
    same = SetRegister("clear", "0000:00:10.0", "ECAP_ACS+6.w", "0", "001d")
    assert runner.apply(same, env=env).events(1) == [(1, "unchanged")]
    runner.undo(env=env)
    assert store.read_text() == "001d"


def test_a_register_that_drifted_is_noted_and_one_that_cannot_be_read_fails_before_any_write(runner):
    store = runner.root.parent / "register"
    store.write_text("005f")
    env = runner.stand_ins(setpci=SETPCI.format(store=store))
    step = SetRegister("clear", "0000:00:10.0", "ECAP_ACS+6.w", "0000", "001d")
    assert "held 005f, not 001d" in runner.apply(step, env=env).detail("note")
    store.unlink()
    gone = SetRegister("clear", "0000:00:11.0", "ECAP_ACS+6.w", "0000", "001d")
    ran = runner.apply(gone, env=env)
    assert ran.events(1) == [(1, "failed")]
    assert "cannot be read" in ran.detail("failed")
    assert not store.exists()


def test_a_register_written_by_others_since_is_not_overwritten(runner):
    store = runner.root.parent / "register"
    store.write_text("001d")
    env = runner.stand_ins(setpci=SETPCI.format(store=store))
    runner.apply(SetRegister("clear", "0000:00:10.0", "ECAP_ACS+6.w", "0000", "001d"), env=env)
    store.write_text("0001")
    assert (1, "failed") in runner.undo(env=env).events(1)
    assert store.read_text() == "0001"
    runner.undo(env=env, force=True)
    assert store.read_text() == "001d"


SYSTEMCTL = """
state={folder}
echo "$*" >>{folder}/calls
case $1 in
  is-enabled) [ -e "$state/enabled" ] && echo enabled || {{ echo disabled; exit 1; }} ;;
  is-active) [ -e "$state/active" ] && echo active || {{ echo inactive; exit 3; }} ;;
  enable) touch "$state/enabled" ;;
  disable) rm -f "$state/enabled" ;;
  start) touch "$state/active" ;;
  stop) rm -f "$state/active" ;;
esac
"""


def test_a_unit_returns_to_what_it_was(runner, tmp_path):
    folder = tmp_path / "units"
    folder.mkdir()
    env = runner.stand_ins(systemctl=SYSTEMCTL.format(folder=folder))
    unit_file = WriteFile("unit", str(runner.root / "systemd/x.service"), "[Unit]\n")
    ran = runner.apply(unit_file, EnableUnit("enable", "x.service"), env=env)
    assert ran.events(2) == [(2, "begin"), (2, "changed")]
    calls = (folder / "calls").read_text().splitlines()
    assert calls.index("daemon-reload") < calls.index("enable x.service")
    assert runner.apply(EnableUnit("enable", "x.service"), env=env).events(1) == [(1, "unchanged")]
    runner.undo(env=env)
    assert not (folder / "enabled").exists()
    assert not (folder / "active").exists()
    assert (folder / "calls").read_text().splitlines()[-1] == "daemon-reload"


def _calls(folder):
    """What systemctl was told since the last look, without the questions."""
    calls = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    (folder / "calls").unlink(missing_ok=True)
    return [call for call in calls if not call.startswith(("is-", "show "))]


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (RestartUnit("restart", "x.service"), ["try-restart x.service"]),
        (EnableUnit("enable", "x.service", start=False), ["enable x.service"]),
        (EnableUnit("enable", "x.service"), ["enable x.service", "start x.service"]),
    ],
)
def test_systemd_reads_unit_files_that_a_killed_run_wrote_before_it_acts_on_them(
    runner, tmp_path, step, told
):
    folder = tmp_path / "units"
    folder.mkdir()
    env = runner.stand_ins(systemctl=SYSTEMCTL.format(folder=folder))
    drop_in = WriteFile("drop-in", str(runner.root / "systemd/x.service.d/y.conf"), "[Service]\n")
    # Killed when the file was in its place, and neither its entry was closed nor systemd told.
    text = script.apply_script(runner.header("run1"), NodePlan("n", (PlannedStep("test", drop_in),)))
    body, _, last = text.rstrip().rpartition("\n")
    assert runner.run_text(f"{body}\nclose_entry() {{ kill -9 $$; }}\n{last}\n", env).returncode == -9
    assert (runner.root / "systemd/x.service.d/y.conf").exists()
    assert _calls(folder) == []
    assert runner.apply(drop_in, step, env=env).events(2)[-1] == (2, "changed")
    assert _calls(folder) == ["daemon-reload", *told]
    # The same once more, when the entry of the file was closed and only systemd not told.
    assert runner.apply(drop_in, env=env).events(1) == [(1, "unchanged")]
    assert _calls(folder) == ["daemon-reload"]


@pytest.mark.parametrize("restarts", [True, False])
def test_an_undo_that_goes_on_after_one_was_killed_has_systemd_read_its_files_again(
    runner, tmp_path, restarts
):
    folder = tmp_path / "units"
    folder.mkdir()
    env = runner.stand_ins(systemctl=SYSTEMCTL.format(folder=folder))
    drop_in = WriteFile("drop-in", str(runner.root / "systemd/x.service.d/y.conf"), "[Service]\n")
    other = WriteFile("other", str(runner.root / "other"), "x")
    runner.apply(drop_in, RestartUnit("restart", "x.service") if restarts else other, env=env)
    (runner.root / "systemd/x.service.d/y.conf").unlink()
    for entry in (runner.state / "journal/run1").glob("[0-9]*"):
        if (entry / "description").read_text() == "drop-in":
            (entry / "undone").write_text("now\n")
    _calls(folder)
    runner.undo(env=env)
    assert _calls(folder) == ["daemon-reload", *(["try-restart x.service"] if restarts else [])]


def test_a_unit_that_cannot_be_enabled_is_a_failure(runner):
    env = runner.stand_ins(systemctl="echo 'Failed to connect to bus' >&2; exit 1\n")
    ran = runner.apply(EnableUnit("enable", "x.service"), env=env)
    assert ran.events(1)[-1] == (1, "failed")
    assert "Failed to connect to bus" in ran.detail("failed")


def test_a_module_that_cannot_be_loaded_fails_with_modprobes_words(runner):
    env = runner.stand_ins(modprobe="echo 'FATAL: Module nope not found' >&2; exit 1\n")
    ran = runner.apply(LoadModule("load", "nope_module"), env=env)
    assert ran.detail("failed").startswith("exit status 1: ")
    if runner.shell[0] != "busybox":  # which has a modprobe of its own, and prefers it
        assert "FATAL: Module nope not found" in ran.detail("failed")


def test_undo_is_repeatable_and_leaves_a_short_history(runner):
    runner.apply(WriteFile("x", str(runner.root / "f"), "x"))
    assert runner.undo().detail("run") == "run1"
    assert "no run on this node is left" in runner.undo().detail("nothing")
    assert "has been undone already" in runner.undo(run="run1").detail("nothing")
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


def test_a_run_that_was_undone_is_not_continued(runner):
    step = WriteFile("x", str(runner.root / "f"), "x")
    runner.apply(step)
    runner.undo()
    assert "has been undone" in runner.apply(step).detail("refused")
    assert not (runner.root / "f").exists()


def test_a_listing_changes_nothing_not_even_a_folder(runner):
    assert "no run" in runner.list().detail("nothing")
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
    slow = Command("slow", ("sleep", "5"), None)
    text = script.apply_script(runner.header("first"), NodePlan("n", (PlannedStep("t", slow),)))
    with subprocess.Popen(
        (*runner.shell, "-s"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as first:
        first.stdin.write(text.encode())
        first.stdin.close()
        assert b" start " in first.stdout.readline()
        refused = runner.apply(WriteFile("x", str(runner.root / "f"), "x"), run="second").detail("refused")
        assert "first of tester@here" in refused
        assert not (runner.root / "f").exists()
        # Killed without a chance to tidy up, it leaves its lock; the next run sees that its holder is gone.
        os.killpg(first.pid, signal.SIGKILL)
    assert (runner.state / "lock").exists()
    assert (1, "changed") in runner.apply(WriteFile("x", str(runner.root / "f"), "x"), run="second").events(1)
    assert not (runner.state / "lock").exists()


@pytest.mark.parametrize("content", ["", "garbage", "1 2 another-boot run who"])
def test_a_lock_of_another_boot_or_without_sense_is_taken_over(runner, content):
    runner.state.mkdir()
    (runner.state / "lock").write_text(content)
    assert (1, "changed") in runner.apply(WriteFile("x", str(runner.root / "f"), "x")).events(1)


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
    first = Command("first", ("sh", "-c", f"sleep 1; touch {runner.root}/first"), None)
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
        process.wait(30)
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
