"""Who meets an unmet requirement, and why there is no step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from case_facts import facts_of

from clusterctl.inventory.model import Node
from clusterctl.requirements.base import Decision, Owner, Status
from clusterctl.requirements.judge import judge_node
from clusterctl.requirements.steps import LoadModule

LOAD = Decision("gpu-driver", Status.UNMET, "not loaded", steps=(LoadModule("Load it", "nvidia"),))
STUCK = Decision("gpu-driver", Status.UNMET, "not installed")
AFTER = Decision("gpu-persistence", Status.UNMET, "no driver", follows="gpu-driver")
LAST = Decision("acs", Status.UNMET, "waits", follows="gpu-persistence")


def judged(*decisions: Decision) -> dict[str, Decision]:
    found = {one.requirement: SimpleNamespace(decide=lambda *_, one=one: one) for one in decisions}
    node = Node.model_validate({"name": "n1", "address": "n1"})
    return {one.requirement: one for one in judge_node(facts_of({}), node, requirements=found)}  # type: ignore[arg-type]


def test_bootstrap_owns_what_has_steps_and_what_follows_them() -> None:
    owners = {name: one.owner for name, one in judged(LOAD, AFTER, LAST).items()}
    assert owners == dict.fromkeys(("gpu-driver", "gpu-persistence", "acs"), Owner.BOOTSTRAP)


def test_what_follows_a_requirement_without_a_step_is_left_to_a_person() -> None:
    found = judged(STUCK, AFTER, LAST)
    assert {one.owner for one in found.values()} == {Owner.YOU}
    assert found["gpu-driver"].reason == "not installed" and not found["gpu-driver"].no_step
    assert (found["gpu-persistence"].reason, found["gpu-persistence"].no_step) == (
        "no driver",
        "gpu-driver must be met first",
    )
    assert found["acs"].no_step == "gpu-persistence must be met first"


def test_a_check_without_the_followed_requirement_promises_no_step() -> None:
    assert judged(AFTER)["gpu-persistence"].owner is Owner.YOU


def test_a_requirement_may_follow_its_own_steps_on_other_nodes() -> None:
    waits = Decision("ssh-mesh", Status.UNMET, "n3 has no key yet", follows="ssh-mesh")
    assert judged(waits)["ssh-mesh"].owner is Owner.BOOTSTRAP


@pytest.mark.parametrize("status", [Status.MET, Status.UNKNOWN, Status.NOT_APPLICABLE])
def test_only_unmet_requirements_have_an_owner(status: Status) -> None:
    one = Decision("acs", status, "off", no_step="never shown")
    assert one.owner is None and one.reason == "off"
