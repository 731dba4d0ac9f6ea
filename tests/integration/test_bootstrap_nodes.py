"""Bootstrap over real SSH: one exec for all steps, lost connections, killed controllers, resume, undo, bad nodes.

All nodes of a farm are this machine: the steps write below a scratch directory, and so does the journal.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
import toy_bootstrap as toy
import typer
from sshd_farm import wait_for_listeners

from clusterctl.apply import bootstrap
from clusterctl.apply.journal import Options
from clusterctl.apply.undo import Undo
from clusterctl.cli.bootstrap import command as bootstrap_verb
from clusterctl.cli.undo import command as undo_verb
from clusterctl.inventory import load
from clusterctl.rundir import RunDir
from clusterctl.runs import counts
from clusterctl.transport.kept import Kept
from clusterctl.views import bootstrap as bootstrap_view


@pytest.fixture
def node(sshd_farm, tmp_path, monkeypatch):
    """One node, its inventory, and a run folder to come."""
    farm = sshd_farm(1)
    for name, value in farm.env.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "root"
    root.mkdir()
    return farm, load.load(farm.inventory(tmp_path)), root


def _statuses(result, name):
    return [step.status.value for step in result.outcomes[name].steps]


def _files(root, name):
    return {p.name: p.read_text() for p in (root / name).rglob("*.conf")}


def _complete(name):
    return {Path(f).name: f"{f} of {name}\n" for f in toy.FILES}


def _undo(engine, inventory, run=None):
    work = Undo(engine.connect, 4, 60, "tester@here", run, False, engine.state_dir)
    listed = work.list(inventory.nodes).values_by_node
    return listed, work.execute(
        inventory.nodes, {n: o.run for n, o in listed.items() if o.run}
    ).values_by_node


def _wait_for(path, text, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for found in path.parent.glob(path.name):
            journal = found / "apply.journal.jsonl"
            if journal.exists() and text in journal.read_text():
                return found
        time.sleep(0.02)
    raise AssertionError(f"{text} did not come within {timeout_s} s")


def test_all_steps_of_a_node_are_one_exec_and_the_verdict_comes_from_new_facts(node, tmp_path):
    farm, inventory, root = node
    engine, name = toy.engine(root), farm.nodes[0].name
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    before = (farm.nodes[0].connections, farm.nodes[0].execs)
    result = bootstrap.apply(engine, prepared, run)
    # One connection with one exec for the steps, and a new one (probe, and the toy's own look) afterwards.
    assert (farm.nodes[0].connections, farm.nodes[0].execs) == (before[0] + 2, before[1] + 3)
    assert _statuses(result, name) == ["changed"] * 4
    assert [v.status.value for v in result.verdicts[name]] == ["met"]
    assert _files(root, name) == _complete(name)
    names = {p.name for p in run.path.iterdir()}
    assert names == {"inventory.json", "facts.json", "plan.json", "apply.json", "apply.journal.jsonl"}
    assert json.loads((run.path / "apply.json").read_text())["state"] == "finished"

    again = bootstrap.prepare(engine, inventory, Options(), RunDir.create("bootstrap", tmp_path / "runs"))
    assert again.plan.is_empty

    listed, undone = _undo(engine, inventory)
    assert listed[name].run == run.id
    assert [s.status.value for s in undone[name].steps] == ["changed"] * 4
    assert not (root / name).exists()


@pytest.mark.parametrize(
    ("subjects", "logins"),
    [(frozenset({"configuration"}), 1), (frozenset({"configuration", "limits"}), 2), (None, 2)],
)
def test_one_login_does_where_none_decides_what_is_seen(node, tmp_path, subjects, logins):
    farm, inventory, root = node
    kept = Kept(4)
    engine, name = toy.engine(root, kept=kept, subjects=subjects), farm.nodes[0].name
    run = RunDir.create("bootstrap", tmp_path / "runs")
    result = bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
    kept.drop()
    assert farm.nodes[0].connections == logins
    assert [v.status.value for v in result.verdicts[name]] == ["met"]
    assert _files(root, name) == _complete(name)


def test_a_connection_lost_in_the_middle_is_named_and_resume_finishes(node, tmp_path):
    farm, inventory, root = node
    engine, name = toy.engine(root, slow_s=2.0), farm.nodes[0].name
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = bootstrap.prepare(engine, inventory, Options(), run)

    def cut():
        _wait_for(run.path, '"number": 2')
        farm.nodes[0].drop_connections()

    cutter = threading.Thread(target=cut)
    cutter.start()
    result = bootstrap.apply(engine, prepared, run)
    cutter.join()
    assert result.outcomes[name].failure.kind.value == "lost"
    assert _statuses(result, name) == ["changed", "failed", "skipped", "skipped"]
    assert json.loads((run.path / "apply.json").read_text())["state"] == "cut"
    _idle(root)
    assert _files(root, name) == {"one.conf": _complete(name)["one.conf"]}, (
        "the runner stops when nobody listens"
    )

    engine = toy.engine(root)
    resumed = bootstrap.prepare_resumed(engine, run)
    assert [s.description for s in resumed.before[name]] == ["write etc/one.conf"]
    result = bootstrap.apply(engine, resumed, run)
    assert result.outcomes[name].failure is None
    assert [v.status.value for v in result.verdicts[name]] == ["met"]
    # The command ended on the node after the connection was lost: only the node's journal has this change.
    counts = bootstrap_view.counts_line(bootstrap_verb.result_of(run, resumed, result).document(), result)
    assert counts.startswith("changed: 4 (2 in an earlier part of this run), failed: 0")
    assert _files(root, name) == _complete(name)
    _undo(engine, inventory, run.id)
    assert not (root / name).exists()


def test_a_controller_that_is_killed_leaves_a_run_that_can_be_resumed(node, tmp_path):
    farm, inventory, root = node
    name, runs = farm.nodes[0].name, tmp_path / "runs"
    program = str(Path(toy.__file__))
    with subprocess.Popen(
        (sys.executable, program, str(tmp_path / "inventory.yaml"), str(root), str(runs)),
        start_new_session=True,
    ) as controller:
        found = _wait_for(runs / "*-bootstrap-*", '"event": "changed"')
        os.killpg(controller.pid, signal.SIGKILL)
    _idle(root)
    engine, run = toy.engine(root), RunDir.open(found.name, runs)
    result = bootstrap.apply(engine, bootstrap.prepare_resumed(engine, run), run)
    assert [v.status.value for v in result.verdicts[name]] == ["met"]
    assert _files(root, name) == _complete(name)
    _undo(engine, inventory)
    assert not (root / name).exists()


def test_a_node_where_another_run_is_at_work_is_refused_by_name_and_keeps_its_verdicts(node, tmp_path):
    farm, inventory, root = node
    engine, name = toy.engine(root), farm.nodes[0].name
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    own = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (root / "state").mkdir()
    (root / "state/lock").write_text(f"{os.getpid()} {own} {boot} other-run someone@else\n")
    result = bootstrap.apply(engine, prepared, run)
    message = result.outcomes[name].failure.message
    assert message.startswith("busy: bootstrap of someone@else since ") and "(run other-run, " in message
    document = bootstrap_verb.result_of(run, prepared, result).document()
    assert document["nodes"][0]["reachable"] is True
    assert document["nodes"][0]["error"]["message"] == result.outcomes[name].failure.message
    assert [v["status"] for v in document["nodes"][0]["verdicts"]] == ["unmet"]
    assert counts.exit_code(document) == 1
    assert _files(root, name) == {}


def test_undo_needs_no_run_folder(node, tmp_path):
    farm, inventory, root = node
    engine, name = toy.engine(root), farm.nodes[0].name
    (root / name / "etc").mkdir(parents=True)
    (root / name / "etc/one.conf").write_text("mine\n")
    run = RunDir.create("bootstrap", tmp_path / "runs")
    bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
    assert _files(root, name) == _complete(name)
    for path in run.path.iterdir():
        path.unlink()
    _undo(engine, inventory)
    assert _files(root, name) == {"one.conf": "mine\n"}


def _idle(root):
    """Wait until no runner holds the node's lock."""
    deadline = time.monotonic() + 30
    while (root / "state/lock").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_bad_nodes_stand_beside_the_good_one(sshd_farm, tmp_path, monkeypatch):
    farm = sshd_farm(1, refusing=1, unknown=1)
    for name, value in farm.env.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "root"
    root.mkdir()
    inventory, engine = load.load(farm.inventory(tmp_path)), toy.engine(root)
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    result = bootstrap.apply(engine, prepared, run)
    good, refusing, unknown = (n.name for n in farm.nodes)
    assert _statuses(result, good) == ["changed"] * 4
    assert {n: f.kind.value for n, f in result.verdicts.failures.items()} == {
        refusing: "refused",
        unknown: "host-key-unknown",
    }
    assert json.loads((run.path / "apply.json").read_text())["state"] == "cut"


def test_a_node_lost_between_plan_and_apply_is_a_failure_with_its_steps_not_reached(node, tmp_path):
    farm, inventory, root = node
    engine, name = toy.engine(root), farm.nodes[0].name
    run = RunDir.create("bootstrap", tmp_path / "runs")
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    farm.nodes[0].stop()
    result = bootstrap.apply(engine, prepared, run)
    assert result.outcomes[name].failure.kind.value == "refused"
    assert _statuses(result, name) == ["skipped"] * 4
    assert name in result.verdicts.failures


def _state():
    folder = Path("/var/lib/clusterctl")
    return sorted(folder.rglob("*")) if folder.exists() else None


def test_a_dry_run_and_an_undo_without_a_run_touch_nothing(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(2)
    inventory, before = str(farm.inventory(tmp_path)), _state()
    done = run_clusterctl("bootstrap", "--dry-run", "--json", inventory, env=farm.env)
    document = json.loads(done.stdout)
    assert document["schema"] == "clusterctl.bootstrap/1"
    assert list(document) == ["schema", "run", "nodes", "summary", "ready_to_launch"]
    assert list(document["summary"]) == ["changed", "failed", "not_done", "planned", "unreachable"]
    assert document["summary"]["changed"] == 0
    assert [n["reachable"] for n in document["nodes"]] == [True, True]
    assert all(
        {"name", "status", "reachable", "error", "steps", "verdicts"} == set(n) for n in document["nodes"]
    )
    assert (tmp_path / "runs" / document["run"] / "plan.json").exists()
    assert [node.connections for node in farm.nodes] == [1, 1]
    # The run is known by its directory here, and changed nothing.
    done = run_clusterctl("undo", "--dry-run", "--json", "--run", document["run"], inventory, env=farm.env)
    assert done.returncode == 0
    assert all("changed nothing" in n["nothing"] for n in json.loads(done.stdout)["nodes"])
    assert _state() == before


@pytest.mark.parametrize("verb", [("bootstrap", "--yes"), ("undo", "--yes")])
def test_no_node_reached_exits_5_and_says_why(sshd_farm, run_clusterctl, tmp_path, verb):
    farm = sshd_farm(0, refusing=2)
    done = run_clusterctl(*verb, "--json", str(farm.inventory(tmp_path)), env=farm.env)
    assert done.returncode == 5
    assert json.loads(done.stdout)["summary"]["unreachable"] == 2
    assert "refused" in done.stderr


def test_some_nodes_reached_exits_1(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(1, refusing=1)
    done = run_clusterctl(
        "bootstrap", "--yes", "--only", "acs", "--json", str(farm.inventory(tmp_path)), env=farm.env
    )
    assert done.returncode == 1
    assert [n["reachable"] for n in json.loads(done.stdout)["nodes"]] == [True, False]


def test_a_run_with_a_node_down_and_nothing_else_to_do_can_be_resumed(sshd_farm, run_clusterctl, tmp_path):
    # A requirement without steps: there is never anything to apply, on whatever machine this runs.
    farm, only = sshd_farm(2), ("--only", "rdma-link")
    inventory, (up, down) = str(farm.inventory(tmp_path)), farm.nodes
    down.stop()
    done = run_clusterctl("bootstrap", "--yes", *only, "--json", inventory, env=farm.env)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert [n["reachable"] for n in document["nodes"]] == [True, False]
    applied = tmp_path / "runs" / document["run"] / "apply.json"
    assert json.loads(applied.read_text())["state"] == "cut"
    again = f"Next: clusterctl bootstrap --resume {applied.parent}"
    assert f"{again}  # once clusterctl can reach {down.name}: includes it\n" in done.stderr

    # Still down: still named, and still to be resumed.
    resume = ("bootstrap", "--yes", "--resume", document["run"], "--json")
    done = run_clusterctl(*resume, env=farm.env)
    assert (done.returncode, json.loads(done.stdout)["summary"]["unreachable"]) == (1, 1)
    assert json.loads(applied.read_text())["nodes"][down.name]["error"]["kind"] == "refused"

    down.start()
    wait_for_listeners([up, down])
    done = run_clusterctl(*resume, env=farm.env)
    document = json.loads(done.stdout)
    assert [(n["reachable"], n["error"]) for n in document["nodes"]] == [(True, None)] * 2
    assert [v["requirement"] for n in document["nodes"] for v in n["verdicts"]] == ["rdma-link"] * 2
    assert done.returncode == run_clusterctl("check", *only, inventory, env=farm.env).returncode
    record = json.loads(applied.read_text())
    assert record["state"] == "finished"
    assert record["nodes"][down.name] == {"error": None, "steps": []}


def test_an_undo_names_the_node_that_is_down_once_and_runs_by_their_ids(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(1, refusing=1)
    inventory = str(farm.inventory(tmp_path))
    # Never in earnest: the nodes' state is this machine's.
    done = run_clusterctl("undo", "--dry-run", inventory, env=farm.env)
    assert done.returncode == 1
    assert (done.stdout + done.stderr).count("node02: ") == 1 and "node02: refused" in done.stdout
    assert "None" not in done.stdout + done.stderr
    for name in ("nope", "..", "runs/", "20200101T000000Z-check-0000"):
        done = run_clusterctl("undo", "--dry-run", "--run", name, inventory, env=farm.env)
        assert done.returncode == 2
        assert " not found in " in done.stderr or "is not a run of 'bootstrap'" in done.stderr


def test_a_dry_run_with_a_node_down_leaves_nothing_to_resume(sshd_farm, run_clusterctl, tmp_path):
    farm = sshd_farm(1, refusing=1)
    inventory = str(farm.inventory(tmp_path))
    done = run_clusterctl("bootstrap", "--dry-run", "--only", "rdma-link", "--json", inventory, env=farm.env)
    run = json.loads(done.stdout)["run"]
    assert not (tmp_path / "runs" / run / "apply.json").exists()
    assert run_clusterctl("bootstrap", "--resume", run, env=farm.env).returncode == 3


@pytest.mark.parametrize("as_json", [True, False])
def test_saying_no_changes_nothing_and_json_still_tells_the_plan(
    node, tmp_path, monkeypatch, capsys, as_json
):
    farm, inventory, root = node
    engine, name = toy.engine(root), farm.nodes[0].name
    path = tmp_path / "inventory.yaml"
    questions = []

    def no(question):
        questions.append(question)
        return False

    monkeypatch.setattr("clusterctl.cli.console.confirm", no)
    monkeypatch.setattr(bootstrap_verb, "_engine", lambda session, run, _kept, subjects: engine)
    monkeypatch.setattr("clusterctl.apply.undo.Undo", partial(Undo, state_dir=engine.state_dir))

    def told(verb, **options):
        with pytest.raises(typer.Exit) as ended:
            verb(inventory=path, as_json=as_json, **options)
        assert ended.value.exit_code == 1
        out, err = capsys.readouterr()
        assert "nothing was changed" in err
        # The question is about a plan that is on the screen, whatever holds stdout.
        undoes = verb is undo_verb.undo
        assert ("clusterctl then checks the nodes again and may plan further steps." in err) == (not undoes)
        sign, what = ("-", f"remove {root / name}/etc/one.conf") if undoes else ("+", "write etc/one.conf")
        assert f"  {sign} toy  {what}" in err
        assert "Plan: 4 changes on 1 node, 0 restarts, 0 reboots" in err
        if not as_json:
            assert out.rstrip().endswith("0 reboots") and out.strip() in err
        return json.loads(out) if as_json else None

    document = told(bootstrap_verb.bootstrap, runs=tmp_path / "runs")
    assert _files(root, name) == {}
    if as_json:
        assert document["summary"] == {
            "changed": 0,
            "failed": 0,
            "not_done": 0,
            "planned": 4,
            "unreachable": 0,
        }
        assert [v["status"] for v in document["nodes"][0]["verdicts"]] == ["unmet"]

    run = RunDir.create("bootstrap", tmp_path / "runs")
    bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
    document = told(undo_verb.undo, run=None)
    assert _files(root, name) == _complete(name)
    if as_json:
        assert document["nodes"][0]["run"] == run.id
        assert document["summary"] == {
            "changed": 0,
            "failed": 0,
            "not_done": 0,
            "planned": 4,
            "unreachable": 0,
        }
    assert questions == [
        "Apply 4 changes on 1 node, and what becomes possible then?",
        "Undo on 1 node?",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("--only", "nonsense"), 2, "nonsense"),
        (("--skip", "acs,typo"), 2, "typo"),
        (("--resume", "20200101T000000Z-bootstrap-0000"), 2, "not found"),
        (("--resume", "x", "--only", "acs"), 2, "--resume"),
    ],
)
def test_what_cannot_be_asked_is_refused(run_clusterctl, arguments, code, word):
    done = run_clusterctl("bootstrap", *arguments)
    assert done.returncode == code
    assert word in done.stderr
    assert "Traceback" not in done.stderr
