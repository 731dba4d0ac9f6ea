"""Nodes that are broken or odd: each fault has one defined result, and leaves nothing half done."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import fault_nodes
import pytest
from fault_nodes import Wanted

from clusterctl.apply import bootstrap
from clusterctl.apply.journal import Options
from clusterctl.apply.rolling import Rolling
from clusterctl.apply.undo import Undo
from clusterctl.cli.bootstrap import command as bootstrap_verb
from clusterctl.cli.live_steps import LiveSteps
from clusterctl.inventory import load
from clusterctl.requirements.steps import Command, InstallPackages, Reboot, RestartUnit, WriteBlock, WriteFile
from clusterctl.rundir import RunDir
from clusterctl.runs import counts
from clusterctl.views import bootstrap as view


class Site:
    """Some nodes in namespaces, and bootstraps of given steps on them."""

    def __init__(self, farm, nodes, tmp_path, **defaults):
        self.farm, self.nodes, self.path = farm, nodes, tmp_path
        self.inventory = load.load(farm.inventory(tmp_path, **defaults))
        self.run_dir = None

    @property
    def node(self):
        return self.nodes[0]

    def engine(self, requirement, **options):
        return fault_nodes.engine(self.nodes, requirement, names=("proof",), **options)

    def bootstrap(self, *rounds, rolling=None, **options):
        """Run steps (a list for each round) to their end; return the result and the document that the verb prints."""
        engine = self.engine(Wanted(*rounds), **options)
        self.run_dir = RunDir.create("bootstrap", self.path / "runs")
        asked = Options(rolling=rolling or Rolling())
        prepared = bootstrap.prepare(engine, self.inventory, asked, self.run_dir)
        result = bootstrap.apply(engine, prepared, self.run_dir)
        return result, bootstrap_verb.result_of(self.run_dir, prepared, result).document()

    def resume(self, *rounds, **options):
        engine = self.engine(Wanted(*rounds), **options)
        prepared = bootstrap.prepare_resumed(engine, self.run_dir)
        return bootstrap.apply(engine, prepared, self.run_dir), prepared

    def undo(self, **options):
        engine = self.engine(Wanted(()))
        work = Undo(
            engine.connect,
            8,
            60,
            "tester@here",
            self.run_dir.id,
            options.get("force", False),
            engine.state_dir,
        )
        runs = {node.name: self.run_dir.id for node in self.inventory.nodes}
        return work.execute(self.inventory.nodes, runs)

    def proof(self, lines=1):
        return WriteFile("the proof", f"{self.node.root}/proof", "line\n" * lines)


@pytest.fixture
def site(sshd_farm, tmp_path, monkeypatch):
    """A function ``site(n=1, extra="", **farm options) -> Site``; ``extra`` is shell text of the namespace."""

    def make(n=1, extra="", **options):
        farm = sshd_farm(n, **options)
        for name, value in farm.env.items():
            monkeypatch.setenv(name, value)
        return Site(farm, fault_nodes.enter(farm, tmp_path / "nodes", extra), tmp_path)

    return make


def _steps(result, name="node01"):
    return [(s.status.value, s.reason) for s in result.outcomes[name].steps]


FULL = "mkdir -p {at}; mount -t tmpfs -o size=64k tmpfs {at}; {before}; cat /dev/zero >{at}/ballast 2>/dev/null || :"


def test_a_full_disk_where_the_journal_lives_refuses_the_run_and_changes_nothing(site):
    made = site(extra=FULL.format(at="/var/lib/clusterctl", before=":"))
    result, document = made.bootstrap([made.proof()])
    failure = result.outcomes["node01"].failure
    assert "cannot be written" in failure.message
    assert "free space there" in failure.hint
    assert "o space left" in failure.message or "I/O error" in failure.message
    assert made.node.snapshot() == {}
    assert counts.exit_code(document) == 1


def test_a_journal_without_room_for_a_step_fails_it_and_names_its_directory(site):
    made = site(extra="mkdir -p /var/lib/clusterctl; mount -t tmpfs -o size=4k tmpfs /var/lib/clusterctl")
    result, _ = made.bootstrap([WriteFile("write", f"{made.node.root}/conf", "x")], [])
    assert _steps(result) == [
        ("failed", "the journal in /var/lib/clusterctl cannot be written (disk full or read-only?)")
    ]
    assert not (made.node.root / "conf").exists()


def test_a_full_disk_at_the_target_fails_the_step_and_leaves_the_old_file_whole(site):
    before = 'printf old >"$1/root/small/conf"'
    made = site(extra=FULL.format(at='"$1/root/small"', before=before))
    big = WriteFile("too much", f"{made.node.root}/small/conf", "x" * 20000)
    seen = Command("look", ("sh", "-c", f"cat {made.node.root}/small/conf >{made.node.root}/seen"), None)
    result, _ = made.bootstrap([big, seen], [])
    assert _steps(result)[0][0] == "failed"
    assert "no space" in _steps(result)[0][1].lower()
    assert _steps(result)[1] == ("skipped", "an earlier step of wanted failed")
    made.bootstrap([seen], [])
    assert (made.node.root / "seen").read_text() == "old"


def test_a_read_only_root_fails_the_step_by_its_name(site):
    made = site(extra='mkdir -p "$1/root/ro"; mount -t tmpfs -o ro tmpfs "$1/root/ro"')
    steps = [
        WriteFile("write", f"{made.node.root}/ro/conf", "x"),
        WriteFile("in a new folder", f"{made.node.root}/ro/d/conf", "x"),
    ]
    for step in steps:
        result, _ = made.bootstrap([step], [])
        ((status, reason),) = _steps(result)
        assert status == "failed"
        assert "Read-only file system" in reason
    assert all(s.status.value == "changed" for o in made.undo().values() for s in o.steps)


def test_a_read_only_journal_refuses_the_run(site):
    made = site(extra="mount -t tmpfs -o ro tmpfs /var/lib/clusterctl")
    result, _ = made.bootstrap([made.proof()])
    assert "Read-only file system" in result.outcomes["node01"].failure.message
    assert made.node.snapshot() == {}


def test_an_immutable_file_is_named_as_such(site):
    made = site()
    path = made.node.root / "conf"
    path.write_text("mine\n")
    if subprocess.run(("chattr", "+i", str(path)), check=False, capture_output=True).returncode:
        # A file system without such flags: the tools say what they would say of one with them.
        made.node.program("lsattr", 'echo "----i---------e------- $2"')
        refuse = 'echo "mv: Operation not permitted" >&2; exit 1'
        made.node.program("mv", f'case $* in *root/conf) {refuse} ;; esac; exec /bin/mv "$@"')
    try:
        result, _ = made.bootstrap([WriteFile("x", str(path), "ours\n")])
    finally:
        subprocess.run(("chattr", "-i", str(path)), check=False, capture_output=True)
    assert "Operation not permitted" in _steps(result)[0][1]
    assert "immutable (chattr +i)" in _steps(result)[0][1]
    assert path.read_text() == "mine\n"
    assert [p.name for p in made.node.root.iterdir()] == ["conf"]


def test_a_package_lock_is_waited_for_and_its_holder_named(site):
    lock = 'touch "$1/lock"; mount --bind "$1/lock" /var/lib/dpkg/lock-frontend'
    made = site(extra=lock)
    made.node.program(
        "apt-get",
        f'case " $* " in *" -s "*) echo "Inst thing (1)" ;; *) touch {made.node.root}/thing ;; esac',
    )
    made.node.program(
        "dpkg-query", f"[ -e {made.node.root}/thing ] && echo 'thing thing:amd64 ii ' || exit 1"
    )
    step = InstallPackages("install a thing", "apt", ("thing",))
    with (made.node.folder / "lock").open("w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        result, _ = made.bootstrap([step, made.proof()], lock_wait_s=2)
        ((status, reason), _) = _steps(result)
        assert status == "failed"
        assert (
            f"(process {os.getpid()}) still holds /var/lib/dpkg/lock-frontend after 2 s of waiting" in reason
        )
        waiting, runs = "waiting for", made.path / "runs"
        before = fault_nodes.times_told(runs, waiting)
        waited = _when(
            lambda: fault_nodes.times_told(runs, waiting) > before, lambda: fcntl.lockf(held, fcntl.LOCK_UN)
        )
        result, _ = made.bootstrap([step, made.proof()], lock_wait_s=60)
        waited.join()
    assert [s for s, _ in _steps(result)] == ["changed", "changed"]
    assert "waiting for" in result.outcomes["node01"].steps[0].notes[0]


def _when(condition, act, timeout_s=30.0):
    """Act, in a thread, as soon as a condition holds."""

    def wait():
        deadline = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_node_that_boots_by_itself_is_named_and_resume_goes_on(site):
    made = site()
    begun = made.node.root / "begun"
    slow = Command("slow", ("sh", "-c", f"touch {begun}; sleep 20"), ("rm", "-f", str(begun)))
    power = _when(begun.exists, made.node.boot_anew)
    result, document = made.bootstrap([slow, made.proof()])
    power.join()
    failure = result.outcomes["node01"].failure
    assert "the node rebooted unexpectedly during the run" in failure.message
    assert "--resume" in failure.hint
    assert [s for s, _ in _steps(result)] == ["failed", "skipped"]
    assert "rebooted unexpectedly" in _steps(result)[0][1]
    assert counts.exit_code(document) == 1
    quick = Command("slow", slow.argv, slow.undo, guard=("test", "-e", str(begun)))
    result, _ = made.resume([quick, made.proof()])
    assert [v.status.value for v in result.verdicts["node01"]] == ["met"]
    made.undo()
    assert made.node.snapshot() == {}


@pytest.fixture
def rebooting(site):
    """A site whose node reboots when a step requires it."""
    made = site()
    told = made.node.folder / "told"
    made.node.program("systemctl", f'[ "$1" != reboot ] || touch {told}')
    made.node.program("shutdown", "exit 1")
    made.node.program("reboot", "exit 1")
    made.node.program("who", ":")
    made.told = told
    return made


def test_what_was_seen_to_by_hand_before_a_run_goes_on_is_left_as_it_is(site):
    made = site()
    conf = made.node.root / "conf"
    steps = (WriteFile("a file", str(conf), "planned\n"), made.proof())
    engine = made.engine(Wanted(steps))
    run = made.run_dir = RunDir.create("bootstrap", made.path / "runs")
    prepared = bootstrap.prepare(engine, made.inventory, Options(), run)
    (made.node.state / "journal").write_text("in the way: nothing is begun\n")
    result = bootstrap.apply(engine, prepared, run)
    assert result.outcomes["node01"].failure is not None
    (made.node.state / "journal").unlink()
    conf.write_text("by hand\n")
    (made.node.root / "proof").write_text("line\n")
    result, _ = made.resume(steps)
    assert [status for status, _ in _steps(result)] == ["unchanged", "unchanged"]
    assert conf.read_text() == "by hand\n"


def test_a_restart_that_a_later_round_did_not_come_to_is_made_when_the_run_goes_on(site):
    made = site()
    conf, restarted, cut = (made.node.root / name for name in ("conf", "restarted", "cut"))
    # The runner ends right before its second restart, all files of which are there by then.
    made.node.program(
        "systemctl",
        f"""case $1 in
  is-active) echo active ;;
  daemon-reload) ! grep -q two {conf} || [ -e {cut} ] || {{
    touch {cut}
    kill -9 "$(awk '/^PPid:/ {{ print $2 }}' "/proc/$PPID/status")"; }} ;;
  try-restart) cat {conf} >>{restarted} ;;
esac""",
    )
    restart = RestartUnit("restart it", "x.service")
    rounds = [
        [WriteFile("a file", str(conf), f"{text}\n"), made.proof(lines), restart]
        for lines, text in enumerate(("one", "two"), start=1)
    ]
    result, _ = made.bootstrap(*rounds)
    assert result.outcomes["node01"].failure.kind.value == "lost"
    assert restarted.read_text() == "one\n"
    result, prepared = made.resume(*rounds)
    assert [planned.step for planned in prepared.plan.nodes[0].steps] == [restart]
    assert _steps(result) == [("changed", "")]
    assert restarted.read_text() == "one\ntwo\n"
    assert made.resume(*rounds)[1].plan.is_empty


def test_a_reboot_that_was_not_allowed_is_skipped_and_says_how_to_allow_it(rebooting):
    made = rebooting
    result, document = made.bootstrap([made.proof(), Reboot("boot the new kernel")])
    assert _steps(result) == [("changed", ""), ("skipped", "needs a reboot: allow it with --reboot")]
    assert not made.told.exists()
    assert [v.status.value for v in result.verdicts["node01"]] == ["met"]
    assert counts.exit_code(document) == 1


def test_a_reboot_is_followed_to_the_new_boot_and_the_next_round_goes_on(rebooting):
    made = rebooting
    down = _when(made.told.exists, made.node.boot_anew)
    result, document = made.bootstrap(
        [made.proof(1), Reboot("boot", 30.0)], [made.proof(2)], reboot=True, force_reboot=True
    )
    down.join()
    assert _steps(result) == [("changed", "")] * 3
    assert [s.round for s in result.outcomes["node01"].steps] == [1, 1, 2]
    assert [v.status.value for v in result.verdicts["node01"]] == ["met"]
    assert counts.exit_code(document) == 0
    assert [s.get("round", 1) for s in document["nodes"][0]["steps"]] == [1, 1, 2]
    descriptions = [
        s["step"]["kind"]
        for n in json.loads((made.run_dir.path / "plan.json").read_text())["nodes"]
        for s in n["steps"]
    ]
    assert descriptions == ["write-file", "reboot"]
    for outcome in made.undo().values():
        assert all(s.status.value == "changed" for s in outcome.steps)
    assert made.node.snapshot() == {}


def test_a_node_at_work_is_not_booted_and_its_work_is_named(rebooting):
    made = rebooting
    made.node.program("nvidia-smi", "echo '4711, /usr/bin/python3'")
    made.node.program("docker", "echo training-7")
    made.node.program("squeue", "echo 'Slurm job 42 of alice'")
    made.node.program("who", "echo 'bob  pts/3  2026-01-01 10:00'")
    result, _ = made.bootstrap([made.proof(), Reboot("boot", 5.0)], reboot=True)
    status, reason = _steps(result)[1]
    assert status == "failed"
    for named in (
        "/usr/bin/python3 (process 4711) on a GPU",
        "container training-7",
        "Slurm job 42 of alice",
        "user bob on pts/3",
    ):
        assert named in reason
    assert "--force-reboot" in reason
    assert not made.told.exists()


def test_a_node_that_does_not_come_back_is_a_failure_with_its_deadline(rebooting):
    made = rebooting
    result, _ = made.bootstrap([made.proof(), Reboot("boot", 3.0)], reboot=True, force_reboot=True)
    assert "the boot ID has not changed" in result.outcomes["node01"].failure.message


def test_a_clock_that_is_years_off_does_not_matter(site):
    made = site()
    for year in (1970, 2199):
        made.node.program("date", f"echo {year}-01-01T00:00:00Z")
        result, _ = made.bootstrap([made.proof(), WriteBlock("b", f"{made.node.root}/f", "x", "y\n")])
        assert [s for s, _ in _steps(result)] == ["changed", "changed"]
        assert str(year) in (made.node.state / "journal" / made.run_dir.id / "time").read_text()
        made.undo()
        assert made.node.snapshot() == {}


def test_output_of_100_mb_costs_no_memory_and_its_end_is_told(site):
    made = site()
    loud = "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo the last words >&2; exit 3"
    peak = _peak_bytes()
    result, _ = made.bootstrap([Command("loud", ("sh", "-c", loud), None), made.proof()])
    status, reason = _steps(result)[0]
    assert status == "failed"
    assert reason.endswith("the last words")
    assert len(reason) < 2000
    assert _peak_bytes() - peak < 30e6
    assert not (made.node.state / "output").exists()


def _peak_bytes():
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


def test_batches_follow_one_another_and_stop_after_failures_then_resume_does_the_rest(site, capsys):
    made = site(4)
    log = made.path / "order"
    roots = {node.name: node.root for node in made.nodes}

    class PerNode(Wanted):
        def _steps(self, facts, node):
            bad = "exit 1" if node.name == "node02" and not (made.path / "mended").exists() else ":"
            act = f"echo {node.name} >>{log}; {bad}; echo line >{roots[node.name]}/proof"
            return (Command("act", ("sh", "-c", act), ("rm", "-f", f"{roots[node.name]}/proof")),)

    engine = replace(made.engine(PerNode(())), watch=LiveSteps())
    run = made.run_dir = RunDir.create("bootstrap", made.path / "runs")
    prepared = bootstrap.prepare(engine, made.inventory, Options(rolling=Rolling("25%", "1")), run)
    assert view.batches(prepared) == ["Batches, one after another: node01; node02; node03; node04"]
    capsys.readouterr()
    result = bootstrap.apply(engine, prepared, run)
    # A batch is announced before its work, and the one that is not started is not.
    err = capsys.readouterr().err
    assert (
        err.index("Batch 1 of 4: node01\n") < err.index("on 1 node in ") < err.index("Batch 2 of 4: node02\n")
    )
    assert "Batch 3 of 4" not in err
    assert log.read_text().split() == ["node01", "node02"]
    assert {n: (o.started, o.failed) for n, o in result.outcomes.items()} == {
        "node01": (True, False),
        "node02": (True, True),
        "node03": (False, False),
        "node04": (False, False),
    }
    assert "not started" in result.outcomes["node03"].failure.message
    document = bootstrap_verb.result_of(run, prepared, result).document()
    assert [s["status"] for n in document["nodes"][2:] for s in n["steps"]] == ["skipped", "skipped"]
    assert counts.exit_code(document) == 1
    assert json.loads((run.path / "apply.json").read_text())["state"] == "cut"

    (made.path / "mended").touch()
    prepared = bootstrap.prepare_resumed(engine, run)
    assert prepared.options.rolling == Rolling("25%", "1")
    result = bootstrap.apply(engine, prepared, run)
    assert log.read_text().split()[2:] == ["node02", "node03", "node04"]
    assert all(v.status.value == "met" for judged in result.verdicts.values() for v in judged)


def test_a_node_that_takes_too_long_is_ended_at_its_own_deadline(site):
    made = site()
    began = time.monotonic()
    result, _ = made.bootstrap([Command("slow", ("sleep", "600"), None), made.proof()], node_timeout_s=2.0)
    assert result.outcomes["node01"].failure.kind.value == "deadline"
    assert time.monotonic() - began < 300
