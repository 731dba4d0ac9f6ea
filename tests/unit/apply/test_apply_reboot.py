"""A reboot's place among other nodes, and a node whose network goes once more while it boots."""

from __future__ import annotations

import base64
import time

import pytest

from clusterctl.apply import reboot, script
from clusterctl.apply.engine import Engine
from clusterctl.apply.on_node import OnNode
from clusterctl.apply.plan.model import NodePlan, PlannedStep
from clusterctl.inventory.model import Node
from clusterctl.requirements.steps import Reboot
from clusterctl.transport.base import Completed, Failure, FailureKind, HostMap, TransportError

GPU01 = Node(name="gpu01", address="10.0.0.1")
PLAN = NodePlan("gpu01", (PlannedStep("t", Reboot("boot", 30.0)),))


@pytest.mark.parametrize(
    ("jump", "leads"),
    [
        (None, False),
        ("10.0.0.1", True),
        ("ops@10.0.0.1:2222", True),
        ("bastion,GPU01", True),
        ("10.0.0.10", False),
        ("gpu011", False),
    ],
)
def test_a_node_is_the_way_to_those_that_name_it_as_their_jump_host(jump, leads):
    assert reboot.is_way_to(GPU01, Node(name="b", address="b", proxy_jump=jump)) is leads


def test_an_ipv6_jump_host():
    node = Node(name="a", address="fd00::1")
    assert reboot.is_way_to(node, Node(name="b", address="b", proxy_jump="me@[fd00::1]:22"))


def _on_node(connect, behind=()):
    engine = Engine(connect, lambda _: HostMap({}), 1, 30.0, reboot=True)
    header = script.Header("r", "o", script.new_nonce())
    return OnNode(engine, GPU01, header, time.monotonic() + 30, lambda key, record: None, behind)


def test_the_way_to_nodes_that_are_worked_on_is_not_booted_beneath_them():
    def connect(node):
        raise AssertionError("nothing is to be done there")

    (step,) = _on_node(connect, ("gpu02", "gpu03")).run(connect, PLAN).steps
    assert step.status.value == "skipped"
    assert step.reason.startswith("needs a reboot, but gpu[02-03]") and "--limit gpu01" in step.reason


class Booting:
    """The wire to a node that boots: what it answers to each of the runner's tries, and its boot id."""

    node = "gpu01"

    def __init__(self, answers):
        self.answers, self.boots, self.told = answers, ["old", "new"], []

    def close(self):
        pass

    def run(self, argv, *, stdin=b"", timeout_s=None, as_root=False, env=None, on_line=None):
        if argv == ("cat", reboot.BOOT_ID):
            return Completed(argv, 0, self.boots[-1].encode(), b"", 0.1)
        if argv != ("sh", "-s"):
            raise TransportError(Failure(FailureKind.LOST, "the network went down", None))
        self.told += [line for line in stdin.decode().splitlines() if line.startswith("BOOTED_FROM=")]
        nonce = stdin.decode().partition("NONCE=")[2][:16]
        answer = self.answers.pop(0)
        if isinstance(answer, FailureKind):
            raise TransportError(Failure(answer, "no answer", None))
        for line in answer:
            on_line(f"@{nonce} {line}")
        return Completed(argv, 0, b"", b"", 0.1)


OLD = base64.b64encode(b"old").decode()
DOWN = [f"0 start {OLD}", "1 begin", f"1 rebooting {OLD}"]
UP = ["0 start =new", "1 changed", "0 done"]


def test_a_network_that_goes_once_more_while_the_node_boots_is_waited_for():
    wire = Booting([DOWN, FailureKind.UNREACHABLE, FailureKind.LOST, UP])
    outcome = _on_node(lambda node: wire).run(wire, PLAN)
    assert (outcome.failure, [s.status.value for s in outcome.steps]) == (None, ["changed"])
    assert wire.told == ["BOOTED_FROM=''", *["BOOTED_FROM=old"] * 3]


def test_a_runner_that_is_refused_after_the_boot_is_not_tried_again():
    wire = Booting([DOWN, [f"0 refused {base64.b64encode(b'the journal is gone').decode()}"]])
    outcome = _on_node(lambda node: wire).run(wire, PLAN)
    assert outcome.failure.message == "the journal is gone" and wire.answers == []
