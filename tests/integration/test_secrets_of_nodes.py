"""Secrets that nodes keep in files of theirs: merged with, restored, and never written or printed here.

The node is this machine over real SSH; its daemon.json lies in a scratch directory, and so does the journal.
"""

from __future__ import annotations

import dataclasses
import json
from functools import partial

import pytest
import toy_bootstrap as toy
from canaries import everything_below

from clusterctl.apply import bootstrap
from clusterctl.apply.journal import Options
from clusterctl.apply.undo import Undo
from clusterctl.facts.base import Reading, absent
from clusterctl.inventory import load
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.containers import daemon_json
from clusterctl.rundir import RunDir

CANARY = "canaryDaemonProxy"
# As an administrator writes it: no newline at its end, slashes escaped, a password with an "@" in it.
BEFORE = (
    '{"http-proxy": "http:\\/\\/me:' + CANARY + "1@" + CANARY + '2@proxy:3128",\n'
    '  "log-opts": {"splunk-token": "' + CANARY + '3"}, "no-proxy": "*.local"}'
)


class Memlock:
    """Wants default-ulimits in the file that the facts show, as the requirement ``docker`` does."""

    NAME, TITLE, READS = "toy", "Containers may lock memory", frozenset()

    def decide(self, facts, node, fleet):
        found = daemon_json.read(facts)
        if found is None or daemon_json.default_memlock(found) != -1:
            return Decision(self.NAME, Status.UNMET, "no limit", steps=self._steps(facts, node))
        return Decision(self.NAME, Status.MET, "unlimited")

    def _steps(self, facts, node):
        limit = {"default-ulimits": {"memlock": {"Name": "memlock", "Hard": -1, "Soft": -1}}}
        text = daemon_json.merged(daemon_json.read(facts), limit)
        return (daemon_json.write(facts, "Let containers lock memory", text),)


@pytest.fixture
def site(sshd_farm, tmp_path, monkeypatch):
    """An engine, its inventory, the node's daemon.json and a new run folder."""
    farm = sshd_farm(1)
    for name, value in farm.env.items():
        monkeypatch.setenv(name, value)
    root = tmp_path / "root"
    root.mkdir()
    path = root / "daemon.json"
    path.write_text(BEFORE)
    path.chmod(0o600)
    monkeypatch.setattr(daemon_json, "PATH", str(path))

    def with_file(facts):
        text = path.read_text().removesuffix("\n") if path.exists() else None
        found = absent("not there") if text is None else Reading(text)
        docker = dataclasses.replace(facts.docker, daemon_config=found, daemon_mode=0o600)
        return dataclasses.replace(facts, docker=docker)

    made = toy.engine(root)
    gather = made.gather
    engine = dataclasses.replace(
        made,
        gather=lambda inventory: gather(inventory).map(lambda _, facts: with_file(facts)),
        requirements={"toy": Memlock()},
    )
    inventory = load.load(farm.inventory(tmp_path))
    return engine, inventory, path, RunDir.create("bootstrap", tmp_path / "runs")


def _keeps_no_secret(run):
    files = everything_below(run.path)
    assert "http-proxy" in files[str(run.file("facts"))] and "http-proxy" in files[str(run.file("plan"))]
    assert not [name for name, text in files.items() if CANARY in text]


def _undo(engine, inventory):
    work = Undo(engine.connect, 4, 60, "tester@here", None, False, engine.state_dir)
    runs = {n: o.run for n, o in work.list(inventory.nodes).values_by_node.items() if o.run}
    return work.execute(inventory.nodes, runs).values_by_node


def test_a_login_in_daemon_json_stays_on_its_node(site):
    engine, inventory, path, run = site
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    _keeps_no_secret(run)
    result = bootstrap.apply(engine, prepared, run)
    _keeps_no_secret(run)
    name = inventory.nodes[0].name
    assert [v.status for v in result.verdicts[name]] == [Status.MET]
    written = json.loads(path.read_text())
    assert {key: written[key] for key in json.loads(BEFORE)} == json.loads(BEFORE)
    assert [s.status.value for s in _undo(engine, inventory)[name].steps] == ["changed"]
    assert path.read_text() == BEFORE


@pytest.mark.parametrize("is_changed_since", [False, True])
def test_a_step_whose_end_was_not_heard_is_resumed_without_stars(site, is_changed_since):
    engine, inventory, path, run = site
    bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
    heard = run.path / "apply.journal.jsonl"
    heard.write_text("".join(x for x in heard.read_text().splitlines(True) if '"changed"' not in x))
    if is_changed_since:
        path.write_text(json.dumps({**json.loads(path.read_text()), "debug": True}))
    written = path.read_text()
    resumed = bootstrap.prepare_resumed(engine, run)
    # What an administrator made of it meanwhile meets the requirement, and is left to them.
    assert len(resumed.plan.nodes[0].steps) == (0 if is_changed_since else 1)
    result = bootstrap.apply(engine, resumed, run)
    assert all(outcome.failure is None for outcome in result.outcomes.values())
    assert path.read_text() == written
    _keeps_no_secret(run)
    if not is_changed_since:
        _undo(engine, inventory)
        assert path.read_text() == BEFORE


def test_a_run_that_was_cut_off_before_its_step_merges_the_real_file(site):
    engine, inventory, path, run = site
    unreachable = dataclasses.replace(engine, connect=partial(_refuse))
    first = bootstrap.apply(unreachable, bootstrap.prepare(engine, inventory, Options(), run), run)
    assert first.outcomes[inventory.nodes[0].name].failure is not None
    bootstrap.apply(engine, bootstrap.prepare_resumed(engine, run), run)
    assert json.loads(path.read_text())["http-proxy"] == json.loads(BEFORE)["http-proxy"]
    _keeps_no_secret(run)


@pytest.mark.parametrize("before", [BEFORE, None])
def test_what_somebody_writes_while_the_operator_reads_the_plan_is_planned_in_and_not_lost(site, before):
    engine, inventory, path, run = site
    if before is None:
        path.unlink()
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    theirs = {**json.loads(before or "{}"), "debug": True}
    path.write_text(json.dumps(theirs))
    (outcome,) = bootstrap.apply(engine, prepared, run).outcomes.values()
    assert [(s.round, s.status.value) for s in outcome.steps] == [(1, "failed"), (2, "changed")]
    assert "was changed after its facts were gathered" in outcome.steps[0].reason
    assert {key: json.loads(path.read_text())[key] for key in theirs} == theirs
    assert daemon_json.PATH in run.file("plan").read_text()
    assert '"made_from": null' in run.file("plan").read_text()
    _undo(engine, inventory)
    assert json.loads(path.read_text()) == theirs


def _refuse(node):
    from clusterctl.transport.base import Failure, FailureKind, TransportError

    raise TransportError(Failure(FailureKind.LOST, "the line is cut"))
