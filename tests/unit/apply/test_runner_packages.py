"""Packages: what a step brought is removed again, no more and no less, also after a crash in the middle.

apt-get and dpkg-query are stand-ins over a directory with one file per installed package: the real ones would
change this machine.
"""

from __future__ import annotations

import os
import time

import pytest
from apt_stand_in import APT_GET, DPKG_QUERY

from clusterctl.apply import script
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.requirements.steps import InstallPackages, WriteFile

STEP = InstallPackages("install", "apt", ("pciutils", "present"))


@pytest.fixture
def apt(runner, tmp_path):
    """A node with one package, and the environment in which the stand-ins come first."""
    db, folder = tmp_path / "db", tmp_path / "bin"
    db.mkdir()
    folder.mkdir()
    (db / "present").touch()
    for name, body in (("apt-get", APT_GET), ("dpkg-query", DPKG_QUERY)):
        (folder / name).write_text("#!/bin/sh\n" + body.format(db=db, state=runner.state))
        (folder / name).chmod(0o755)
    return runner, db, {"PATH": f"{folder}:{os.environ['PATH']}"}


def _flag(db, name):
    db.with_name(f"db.{name}").touch()


def _installed(db):
    return sorted(path.name for path in db.iterdir())


def test_what_was_brought_is_removed_and_what_was_there_stays(apt):
    runner, db, env = apt
    assert runner.apply(STEP, env=env).events(1) == [(1, "begin"), (1, "changed")]
    assert _installed(db) == ["libdep", "pciutils", "present"]
    assert runner.apply(STEP, env=env).events(1) == [(1, "unchanged")]
    (db / "someone-elses").touch()
    assert (1, "changed") in runner.undo(env=env).events(1)
    assert _installed(db) == ["present", "someone-elses"]


def test_no_service_is_restarted_for_a_library_that_was_replaced(apt):
    runner, db, env = apt
    runner.apply(STEP, env=env)
    runner.undo(env=env)
    assert "services are restarted" not in db.with_name("db.log").read_text()


def test_a_listing_names_all_that_goes_with_the_packages(apt):
    runner, _, env = apt
    runner.apply(STEP, env=env)
    entry = runner.state / "journal/run1/0001"
    (entry / "etc-brought").write_text("- /etc/thing.d\n0123 /etc/thing.d/a file\n")
    (entry / "groups-brought").write_text("things\n")
    runner.seal_again()
    assert runner.list().events(1) == [(1, "entry"), (1, "would"), *[(1, "note")] * 2]
    assert runner.list().detail("would").strip() == "- remove the packages libdep pciutils"
    assert [r.detail.strip() for r in runner.list().records if r.event.value == "note"] == [
        "removes their remaining files in /etc, unless changed: /etc/thing.d /etc/thing.d/a file",
        "removes the groups things",
    ]


def test_stale_lists_are_refreshed_once(apt):
    runner, db, env = apt
    _flag(db, "stale")
    assert (1, "changed") in runner.apply(STEP, env=env).events(1)
    assert db.with_name("db.log").read_text().count("update") == 1


def test_what_an_undo_could_not_take_back_stays_in_the_journal_though_packages_went_after_it(apt):
    runner, _, env = apt
    file = runner.root / "settings"
    file.write_text("before\n")
    runner.apply(STEP, WriteFile("write", str(file), "ours\n"), env=env)
    file.write_text("somebody's\n")
    ran = runner.undo(env=env)
    assert (ran.events(2)[-1], ran.events(1)[-1]) == ((2, "failed"), (1, "changed"))
    assert (2, "changed") in runner.undo(env=env, force=True).events(2)
    assert file.read_text() == "before\n"


def test_a_run_is_undone_though_what_its_packages_left_behind_was_changed_since(apt):
    runner, _, env = apt
    runner.apply(STEP, env=env)
    left = runner.root / "left"
    left.write_text("somebody's by now\n")
    (runner.state / "journal/run1/0001/etc-brought").write_text(f"0123 {left}\n")
    runner.seal_again()
    assert (1, "changed") in runner.undo(env=env).events(1)
    assert left.exists()
    assert (0, "nothing") in runner.undo(env=env).events(0)


@pytest.mark.parametrize("status", [0, 124, 143])
def test_where_a_dead_server_hid_what_was_there_nothing_that_holds_data_is_purged(apt, tmp_path, status):
    runner, db, env = apt
    text = script.apply_script(runner.header("run1"), NodePlan("n", (PlannedStep("test", STEP),)))
    assert text.count("limit 60 find ") == 1
    ran = runner.run_text(text.replace("limit 60 find ", f"sh -c 'exit {status}' "), env)
    assert ran.events(1)[-1] == (1, "changed")
    data, scripts = tmp_path / "srv", tmp_path / "info"
    for folder in (data, scripts):
        folder.mkdir()
    (data / "somebodys").touch()
    (scripts / "pciutils.postrm").write_text(f"rm -rf {data}\n")
    text = script.undo_script(runner.header("run1"))
    ran = runner.run_text(text.replace("/var/lib/dpkg/info", str(scripts)), env)
    assert ran.events(1)[-1] == (1, "changed")
    assert ("pciutils.configured" in _installed(db)) is (status != 0)
    assert any("not purged: purging would delete" in record.detail for record in ran.records) is (status != 0)


@pytest.mark.parametrize("crashed", [False, True])
def test_what_newer_lists_bring_beside_what_was_foreseen_goes_again_as_well(apt, crashed):
    runner, db, env = apt
    step = InstallPackages("install", "apt", ("pciutils", "tool"))
    if crashed:
        _flag(db, "crash")
        runner.apply(step, env=env)
        db.with_name("db.crash").unlink()
        _flag(db, "updated")
    (db / "libdep2.configured").touch()
    _flag(db, "renamed")
    assert (1, "changed") in runner.apply(step, env=env).events(1)
    assert _installed(db) == ["libdep2", "libdep2.configured", "pciutils", "present", "tool"]
    assert (1, "changed") in runner.undo(env=env).events(1)
    assert _installed(db) == ["libdep2.configured", "present"]


def test_a_package_manager_that_is_locked_is_waited_for_and_then_a_named_failure(apt):
    runner, db, env = apt
    _flag(db, "locked")
    ran = runner.apply(STEP, env=env)
    assert ran.events(1) == [(1, "failed")]
    assert "Could not get lock" in ran.detail("failed")
    assert "DPkg::Lock::Timeout=120" in db.with_name("db.log").read_text()


def test_after_a_crash_in_the_middle_undo_removes_what_had_come_and_no_other(apt):
    runner, db, env = apt
    _flag(db, "crash")
    runner.apply(STEP, env=env)
    assert _installed(db) == ["pciutils", "present"]
    db.with_name("db.crash").unlink()
    (db / "someone-elses").touch()
    runner.undo(env=env)
    assert _installed(db) == ["present", "someone-elses"]


@pytest.mark.parametrize("resumed", [True, False])
def test_after_a_crash_right_after_the_installation_what_was_left_is_noted_before_it_is_removed(apt, resumed):
    runner, db, env = apt
    _flag(db, "crash-late")
    runner.apply(STEP, env=env)
    noted = [runner.state / "journal/run1/0001" / f"{kind}-brought" for kind in ("users", "groups", "etc")]
    assert not any(file.exists() for file in noted)
    db.with_name("db.crash-late").unlink()
    if resumed:
        assert runner.apply(STEP, env=env).events(1) == [(1, "changed")]
        assert all(file.exists() for file in noted)
    runner.undo(env=env)
    of_removal = db.with_name("db.log").read_text().split("\n")
    assert {file.name for file in noted} <= set(of_removal)
    assert _installed(db) == ["present"]


def test_packages_that_others_need_by_now_are_not_torn_out(apt):
    runner, db, env = apt
    runner.apply(STEP, env=env)
    _flag(db, "dependent")
    ran = runner.undo(env=env)
    assert (1, "failed") in ran.events(1)
    assert "would also remove dependent" in ran.detail("failed")
    assert "pciutils" in _installed(db)


def test_an_engine_that_came_with_its_packages_is_not_removed_under_containers(apt):
    runner, db, env = apt
    runner.apply(STEP, env=env)
    db.with_name("db.files").write_text("/usr/lib/systemd/system/docker.service\n/usr/bin/dockerd\n")
    runner.stand_ins(
        systemctl='[ "$1" != is-active ] || echo active\n',
        docker="case $1 in ps) echo training-7 ;; info) echo false ;; esac\n",
    )
    ran = runner.undo(env=env)
    assert "docker.service is not stopped, because it is in use by container training-7" in ran.detail(
        "failed"
    )
    assert _installed(db) == ["libdep", "pciutils", "present"]
    assert (1, "changed") in runner.undo(env=env, force=True).events(1)
    assert _installed(db) == ["present"]


def test_what_would_be_removed_to_make_room_is_named_and_nothing_happens(apt):
    runner, db, env = apt
    (db / "rival").touch()
    _flag(db, "rival")
    ran = runner.apply(STEP, env=env)
    assert ran.events(1) == [(1, "failed")]
    assert "would remove rival" in ran.detail("failed")
    assert _installed(db) == ["present", "rival"]
    assert "--no-install-recommends --no-remove install" not in db.with_name("db.log").read_text()


def test_a_rival_that_comes_between_the_question_and_the_installation_stays(apt):
    runner, db, env = apt
    step = InstallPackages("install", "apt", ("pciutils", "tool"))
    _flag(db, "crash")
    runner.apply(step, env=env)
    assert _installed(db) == ["pciutils", "present"]
    db.with_name("db.crash").unlink()
    (db / "rival").touch()
    _flag(db, "rival")
    ran = runner.apply(step, env=env)
    assert (1, "failed") in ran.events(1)
    assert "remove is disabled" in ran.detail("failed")
    assert "rival" in _installed(db)


def test_a_crash_between_removing_and_purging_is_made_good_by_the_next_undo(apt):
    runner, db, env = apt
    runner.apply(STEP, env=env)
    _flag(db, "crash")
    runner.undo(env=env)
    assert _installed(db) == ["libdep.configured", "pciutils.configured", "present"]
    db.with_name("db.crash").unlink()
    assert (1, "changed") in runner.undo(env=env).events(1)
    assert _installed(db) == ["present"]


def test_packages_carried_for_a_run_that_never_began_are_not_kept_for_ever(runner):
    for name, age_s in (("today", 0), ("long ago", 3 * 86400)):
        folder = runner.state / "carried" / name
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age_s,) * 2)
    runner.apply()
    assert [path.name for path in (runner.state / "carried").iterdir()] == ["today"]


def test_what_was_removed_but_configured_before_is_so_again(apt):
    runner, db, env = apt
    (db / "libdep.configured").touch()
    runner.apply(STEP, env=env)
    assert "pciutils" in _installed(db)
    assert (1, "changed") in runner.undo(env=env).events(1)
    assert _installed(db) == ["libdep.configured", "present"]
