"""Plans: what is unmet becomes steps, each target once; contradictions are refused."""

from __future__ import annotations

import pytest
from every_step import EVERY_KIND

from clusterctl.apply.plan.build import build, join
from clusterctl.apply.plan.model import NodePlan, Plan, PlannedStep, from_document, to_document
from clusterctl.errors import PlanError
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.steps import (
    InstallPackages,
    RestartUnit,
    WriteFile,
)


def test_the_steps_of_all_decisions_become_the_plan_in_their_order():
    one, two = WriteFile("d", "/etc/one", "1"), WriteFile("d", "/etc/two", "2")
    plan = build(
        "n1",
        (
            Decision("b", Status.UNMET, "because", steps=(two,)),
            Decision("met", Status.MET, "because"),
            Decision("a", Status.UNMET, "because", steps=(one, two)),
        ),
    )
    assert plan == NodePlan("n1", (PlannedStep("b", two), PlannedStep("a", one)))


def test_the_same_change_wanted_twice_is_made_once():
    one = PlannedStep("a", InstallPackages("for a", "apt", ("pciutils",)))
    other = PlannedStep("b", InstallPackages("for b", "apt", ("pciutils",)))
    assert join("n1", (one, other)).steps == (one,)


def test_two_requirements_that_contradict_each_other_are_refused_with_both_names():
    with pytest.raises(PlanError, match="n1: a and b require different states of /etc/x") as refused:
        join(
            "n1",
            (
                PlannedStep("a", WriteFile("d", "/etc/x", "1")),
                PlannedStep("b", WriteFile("d", "/etc/x", "2")),
            ),
        )
    assert "--skip b" in refused.value.hint


def test_a_restart_belongs_to_its_requirement():
    steps = (
        PlannedStep("a", RestartUnit("d", "ssh.service")),
        PlannedStep("b", RestartUnit("d", "ssh.service")),
    )
    assert join("n1", steps).steps == steps


def test_every_kind_of_step_survives_the_plan_file():
    plan = Plan((NodePlan("n1", tuple(PlannedStep("r", step) for step in EVERY_KIND)), NodePlan("n2", ())))
    again = from_document(to_document(plan))
    assert again == plan
    assert [type(p.step) for p in again.nodes[0].steps] == [type(step) for step in EVERY_KIND]


@pytest.mark.parametrize(
    "document", [None, {}, {"schema": "clusterctl.plan/2"}, {"schema": "clusterctl.plan/1"}]
)
def test_what_is_no_plan_is_refused(document):
    with pytest.raises(PlanError):
        from_document(document)
