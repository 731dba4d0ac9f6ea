"""Units and the files they are made of: systemd reads what was written before it has to act on it."""

from __future__ import annotations

import pytest

from clusterctl.apply import script
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.steps import EnableUnit, RestartUnit, WriteFile

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
    """What systemctl was called with since the last look, without the questions."""
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
