"""Steps that change the running system, commands, registers and modules, run by the real shell program."""

from __future__ import annotations

from clusterctl.apply.plan.model import PlannedStep
from clusterctl.requirements.steps import Command, LoadModule, SetRegister, WriteFile


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


def test_a_register_of_a_device_that_is_gone_keeps_no_run_from_being_undone(runner):
    store = runner.root.parent / "register"
    store.write_text("001d")
    env = runner.stand_ins(setpci=SETPCI.format(store=store))
    runner.apply(SetRegister("clear", "ffff:00:10.0", "ECAP_ACS+6.w", "0000", "001d"), env=env)
    (runner.state / "journal/run1/0001/identity").write_text("0x10b5 0x8747 0x060400")
    runner.seal_again()
    ran = runner.undo(env=env)
    assert ran.events(1) == [(1, "entry"), (1, "note"), (1, "changed")]
    assert any("ffff:00:10.0 no longer exists" in r.detail for r in ran.records)
    assert store.read_text() == "0000"


def test_a_module_that_cannot_be_loaded_fails_with_modprobes_words(runner):
    env = runner.stand_ins(modprobe="echo 'FATAL: Module nope not found' >&2; exit 1\n")
    ran = runner.apply(LoadModule("load", "nope_module"), env=env)
    assert ran.detail("failed").startswith("exit status 1: ")
    if runner.shell[0] != "busybox":  # which has a modprobe of its own, and prefers it
        assert "FATAL: Module nope not found" in ran.detail("failed")
