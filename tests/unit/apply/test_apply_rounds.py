"""Which failures count for ``--max-failures``: those of nodes, each once, and at once."""

from __future__ import annotations

import pytest

from clusterctl.apply.engine import Engine, Prepared, judged, planned
from clusterctl.apply.journal import Options
from clusterctl.apply.rolling import Rolling
from clusterctl.apply.rounds import LIMIT, Rounds
from clusterctl.errors import CommandError
from clusterctl.inventory.model import Inventory, Node
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.steps import Command
from clusterctl.rundir import RunDir
from clusterctl.transport.base import Completed, HostMap


class Unwell:
    """A requirement that is never met and asks for something else each time; facts are how often it was looked."""

    NAME, TITLE, READS = "unwell", "Well", frozenset()

    def decide(self, facts, node, fleet):
        return Decision(self.NAME, Status.UNMET, f"look {facts}", steps=self._steps(facts, node))

    def _steps(self, facts, node):
        return (Command(f"try {facts}", ("try", str(facts)), None),)


class Wire:
    """A node on which every step fails, or (``full``) nothing can be brought to it."""

    def __init__(self, node, full):
        self.node, self.full, self.is_open = node.name, full, True

    def close(self):
        pass

    def run(self, argv, *, stdin=b"", timeout_s=None, as_root=False, env=None, on_line=None):
        if self.full:
            raise CommandError(f"{self.node}: no room")
        nonce = stdin.decode().partition("NONCE=")[2][:16]
        for line in ("0 start =boot", "1 begin", "1 failed", "0 done"):
            on_line(f"@{nonce} {line}")
        return Completed(argv, 0, b"", b"", 0.1)


@pytest.fixture
def outcomes(tmp_path):
    """A function that bootstraps three nodes, one at a time, and returns their outcomes."""

    def bootstrap(rolling, full=()):
        inventory = Inventory(nodes=tuple(Node(name=name, address=name) for name in ("a", "b", "c")))
        looks = dict.fromkeys(("a", "b", "c"), 0)

        def gather(some):
            for node in some.nodes:
                looks[node.name] += 1
            return HostMap({node.name: looks[node.name] for node in some.nodes})

        engine = Engine(lambda node: Wire(node, node.name in full), gather, 1, 30.0, {"unwell": Unwell()})
        options, facts = Options(rolling=rolling), gather(inventory)
        verdicts = judged(engine, inventory, options, facts)
        plan = planned(inventory, verdicts)
        prepared = Prepared(inventory, options, facts, verdicts, plan, {})
        run = RunDir.create("bootstrap", tmp_path)
        run.write("plan", {"schema": "clusterctl.plan/1", "nodes": []})
        return Rounds(engine, prepared, run).execute().outcomes

    return bootstrap


def test_a_node_that_fails_in_every_round_is_one_node(outcomes):
    found = outcomes(Rolling("1", "2"))
    assert [len(found[name].steps) for name in ("a", "b")] == [LIMIT, 1]
    assert {name: outcome.started for name, outcome in found.items()} == {"a": True, "b": True, "c": False}


def test_a_node_to_which_nothing_can_be_brought_counts_before_the_next_is_started(outcomes):
    found = outcomes(Rolling(None, "1"), full=("a",))
    assert found["a"].failure.message == "a: no room"
    assert {name: outcome.started for name, outcome in found.items()} == {"a": True, "b": False, "c": False}
