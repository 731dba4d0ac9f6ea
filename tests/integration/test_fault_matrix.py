"""The fault matrix: the controller crashes at every boundary of its journal, the connection dies at every step.

After each: the state is that of before, or that of after, or ``--resume`` reaches after; and ``undo`` always reaches
before, to the byte, the mode and the owner. Nodes are real sshds, each with a journal of its own.
"""

from __future__ import annotations

import os
import threading
from typing import get_args

import fault_nodes
import pytest
from soak import spread

from clusterctl.apply import bootstrap
from clusterctl.apply.journal import Options, RunJournal
from clusterctl.apply.undo import Undo
from clusterctl.errors import ConfigError, PlanError
from clusterctl.inventory import load
from clusterctl.requirements.steps import Reboot, Step
from clusterctl.rundir import RunDir


class Crash(BaseException):
    """The controller is gone from here on."""


class Controller:
    """Crashes at the n-th boundary of what it keeps on disk: before a record of the journal, or around a file.

    What lies between a record and the next is the node's time, so that "after a record" is "before the next". Every
    third crash tears the record in the middle of its line.
    """

    def __init__(self, monkeypatch):
        self.left, self.count = 0, 0
        add, write = RunJournal.add, RunDir.write

        def counted_add(journal, node, key, record, number=1):
            if self.left == 1 and self.count % 3 == 0:
                os.write(journal._handle, b'{"time": 1, "node": "')
            self.tick()
            add(journal, node, key, record, number)

        def counted_write(run, stage, document):
            self.tick()
            path = write(run, stage, document)
            self.tick()
            return path

        monkeypatch.setattr(RunJournal, "add", counted_add)
        monkeypatch.setattr(RunDir, "write", counted_write)

    def tick(self):
        self.count += 1
        if self.left == 1:
            raise Crash
        if self.left > 1:
            self.left -= 1


@pytest.fixture
def fleet(sshd_farm, tmp_path, monkeypatch):
    """A function ``fleet(n) -> (farm, nodes, engine, inventory)``."""

    def make(n, **options):
        farm = sshd_farm(n)
        for name, value in farm.env.items():
            monkeypatch.setenv(name, value)
        nodes = fault_nodes.enter(farm, tmp_path / "nodes")
        for node in nodes:
            fault_nodes.furnish(node)
        source = tmp_path / "source"
        source.mkdir()
        (source / "Makefile").write_text("all:\n")
        engine = fault_nodes.engine(nodes, fault_nodes.Everything(nodes, source), **options)
        return farm, nodes, engine, load.load(farm.inventory(tmp_path))

    return make


def _undo(engine, inventory):
    """Take back run after run until nothing is left, as an operator would."""
    for _ in range(3):
        work = Undo(engine.connect, 8, 60, "tester@here", None, False, engine.state_dir)
        listed = work.list(inventory.nodes).values_by_node
        runs = {name: o.run for name, o in listed.items() if o.run and not o.nothing}
        if not runs:
            return
        for outcome in work.execute(inventory.nodes, runs).values():
            assert not [s for s in outcome.steps if s.status.value == "failed"], outcome
    raise AssertionError("undo comes to no end")


def _refused_while_a_runner_is_at_work(engine, inventory, run, cut):
    """An undo that comes while a runner without a controller has not ended yet leaves its node alone."""
    # Those held before anything that would show them that no controller listens: files 1 and 2 are written together.
    held = {name: run.id for name, (number, event) in cut.items() if event == "changed" and number > 1}
    work = Undo(engine.connect, 8, 60, "tester@here", None, False, engine.state_dir)
    for name, outcome in work.execute(inventory.nodes, held).items():
        assert f" (run {run.id}, process " in outcome.failure.message, name
        assert "if it hangs, end its process" in outcome.failure.hint
        assert outcome.steps == ()


def _go_on(engine, run, inventory, runs):
    """Resume what can be resumed; start again what crashed before it had begun to change anything."""
    try:
        prepared = bootstrap.prepare_resumed(engine, run)
    except (ConfigError, PlanError):
        run = RunDir.create("bootstrap", runs)
        prepared = bootstrap.prepare(engine, inventory, Options(), run)
    result = bootstrap.apply(engine, prepared, run)
    assert all(v.status.value == "met" for judged in result.verdicts.values() for v in judged)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_controller_crashes_at_every_boundary_of_its_journal(fleet, tmp_path, monkeypatch):
    _, (node,), engine, inventory = fleet(1)
    runs = tmp_path / "runs"
    before = node.snapshot()
    controller = Controller(monkeypatch)

    def attempt(crash_at):
        controller.left, controller.count = crash_at, 0
        run = RunDir.create("bootstrap", runs)
        try:
            bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
        except Crash:
            assert controller.count == crash_at
        else:
            assert crash_at == 0
        controller.left = 0
        node.idle()
        return run

    attempt(0)
    total, after = controller.count, node.after()
    assert total > 25
    _undo(engine, inventory)
    assert node.snapshot() == before
    for point in spread(range(1, total + 1), 9):
        run = attempt(point)
        node.keep()
        _undo(engine, inventory)
        assert node.snapshot() == before, f"crash at boundary {point} of {total}, then undo"
        node.put_back()
        _go_on(engine, run, inventory, runs)
        assert node.after() == after, f"crash at boundary {point} of {total}, then resume"
        _undo(engine, inventory)
        assert node.snapshot() == before, f"crash at boundary {point} of {total}, then resume and undo"


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_connection_dies_at_every_step(fleet, tmp_path, monkeypatch):
    """One node per step and side of it: all of them are cut in one run, and gone on with in another.

    A node writes its records ahead of those that have been read. Each is held where it is to be cut, or it would at
    times be through by then; and no other run gets to work on it before it is let go.
    """
    _, nodes, engine, inventory = fleet(7)
    runs = tmp_path / "runs"
    before = {node.name: node.snapshot() for node in nodes}
    run = RunDir.create("bootstrap", runs)
    prepared = bootstrap.prepare(engine, inventory, Options(), run)
    bootstrap.apply(engine, prepared, run)
    steps = prepared.plan.of(nodes[0].name).steps
    assert {type(planned.step) for planned in steps} == {*get_args(Step)} - {Reboot}
    after = {node.name: node.after() for node in nodes}
    _undo(engine, inventory)
    sides = [(number, event) for number in range(1, len(steps) + 1) for event in ("begin", "changed")]
    points = list(spread(sides, 2 * len(nodes)))
    add = RunJournal.add
    cut: dict[str, tuple[int, str]] = {}
    dropped = threading.Lock()

    def cutting(journal, name, key, record, number=1):
        add(journal, name, key, record, number)
        if cut.get(name) == (record.number, record.event.value):
            with dropped:
                del cut[name]
            next(node for node in nodes if node.name == name).node.drop_connections()

    monkeypatch.setattr(RunJournal, "add", cutting)
    while points:
        cut.update({node.name: points.pop() for node in nodes if points})
        wanted = dict(cut)
        for node in nodes:
            node.hold_at(wanted.get(node.name))
        run = RunDir.create("bootstrap", runs)
        result = bootstrap.apply(engine, bootstrap.prepare(engine, inventory, Options(), run), run)
        assert not cut, "every connection was cut where it was to be"
        lost = {name for name, outcome in result.outcomes.items() if outcome.failure is not None}
        assert lost == set(wanted)
        _refused_while_a_runner_is_at_work(engine, inventory, run, wanted)
        for node in nodes:
            node.let_go()
            node.idle()
        part = inventory.model_copy(update={"nodes": inventory.nodes[::2]})
        _undo(engine, part)
        for node in nodes[::2]:
            assert node.snapshot() == before[node.name], (wanted.get(node.name), "then undo")
        rest = inventory.model_copy(update={"nodes": inventory.nodes[1::2]})
        run.write("inventory", rest.model_dump(mode="json"))
        _go_on(engine, run, rest, runs)
        for node in nodes[1::2]:
            assert node.after() == after[node.name], (wanted.get(node.name), "then resume")
        _undo(engine, inventory)
        assert {node.name: node.snapshot() for node in nodes} == before
