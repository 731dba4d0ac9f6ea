"""Later rounds: what was tried is left out, what is new keeps what must follow it, and a node boots once."""

from __future__ import annotations

import pytest

from clusterctl.apply.plan.build import build, join
from clusterctl.apply.plan.model import NodePlan, Plan, PlannedStep, from_document, to_document
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.steps import InstallPackages, Reboot, RestartUnit, WriteBlock, WriteFile

WRITE, RESTART = WriteFile("write", "/etc/a", "1"), RestartUnit("restart", "sshd")
BLOCK = WriteBlock("allow", "/root/keys", "mesh", "one key\n", owner="root")
BOOT = Reboot("boot without nouveau", 600.0)


def _build(*steps, tried=()):
    before = frozenset(PlannedStep("asks", step) for step in tried)
    return [
        p.step for p in build("n1", (Decision("asks", Status.UNMET, "because", steps=steps),), before).steps
    ]


@pytest.mark.parametrize(
    ("steps", "tried", "planned"),
    [
        ((WRITE, RESTART), (), (WRITE, RESTART)),
        ((WRITE, RESTART), (WRITE, RESTART), ()),
        ((WRITE,), (WRITE, RESTART), ()),
        # A file that changes again needs its restart again.
        ((BLOCK, RESTART), (WriteBlock("allow", "/root/keys", "mesh", ""), RESTART), (BLOCK, RESTART)),
        ((WRITE, BOOT), (WRITE, BOOT), ()),
        ((WRITE, BLOCK, BOOT), (WRITE, BOOT), (WRITE, BLOCK)),
        ((BOOT,), (Reboot("for another"),), ()),
        ((BLOCK, BOOT), (Reboot("for another"),), (BLOCK, BOOT)),
    ],
)
def test_what_a_round_plans_after_what_was_tried(steps, tried, planned):
    assert _build(*steps, tried=tried) == list(planned)


def test_a_node_is_booted_once_at_the_end_with_the_longest_patience():
    plan = join(
        "n1",
        (
            PlannedStep("a", BOOT),
            PlannedStep("a", WRITE),
            PlannedStep("b", Reboot("too", 900.0)),
            PlannedStep("b", BLOCK),
        ),
    )
    assert [p.step for p in plan.steps] == [WRITE, BLOCK, Reboot(BOOT.description, 900.0)]
    assert plan.steps[-1].requirement == "a"


def test_the_new_kinds_of_steps_come_back_from_a_plan_document():
    carried = InstallPackages("d", "apt", ("a",), "/srv/packages")
    plan = Plan((NodePlan("n1", tuple(PlannedStep("r", step) for step in (BLOCK, carried, BOOT))),))
    assert from_document(to_document(plan)) == plan
