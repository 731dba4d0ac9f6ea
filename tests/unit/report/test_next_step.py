"""The next command of the way: bootstrap for what it meets, pages of the rest, then bench and accept."""

from __future__ import annotations

from clusterctl.report.text.wrapping import next_lines
from clusterctl.report.view import NextStep
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.launch_ready import NEEDED
from clusterctl.requirements.steps import EnableUnit
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.views.next_step import Way, after_bootstrap, after_check

WAY = Way(("my fleet.yaml", "--limit", "gpu[01-04]"), ("--only", "docker"))
MET = Decision("acs", Status.MET, "off")
FIXABLE = Decision("docker", Status.UNMET, "stopped", steps=(EnableUnit("Enable docker", "docker.service"),))
LATER = Decision("container-toolkit", Status.UNMET, "waits", follows="docker")
STUCK = Decision("gpu-driver", Status.UNMET, "no driver")
UNREAD = Decision("rdma-link", Status.UNKNOWN, "needs root")
GONE = Failure(FailureKind.REFUSED, "refused")


def checked(way: Way | None, **nodes: tuple[Decision, ...] | Failure) -> list[str]:
    return list(next_lines(after_check(HostMap(nodes), way)))


def test_a_fleet_as_required_is_measured_and_then_accepted() -> None:
    assert checked(WAY, n1=(MET,), n2=()) == [
        "Next: clusterctl bench 'my fleet.yaml' --limit 'gpu[01-04]'  # measures the nodes"
    ]
    assert checked(Way(has_bench=True), n1=(MET,)) == [
        "Next: clusterctl accept  # measures all and judges it"
    ]


def test_the_next_stage_leaves_out_the_nodes_that_are_down() -> None:
    assert checked(Way(), n1=(MET,), n2=GONE, n3=GONE) == [
        "Next: clusterctl bench --limit '!n[2-3]'  # measures the nodes without n[2-3]"
    ]
    assert checked(Way(), n1=GONE) == []


def test_bootstrap_fixes_what_has_steps_and_the_rest_has_pages() -> None:
    assert checked(WAY, n1=(MET, FIXABLE, LATER, STUCK), n2=(UNREAD,)) == [
        (
            "Next: clusterctl bootstrap 'my fleet.yaml' --limit 'gpu[01-04]' --only docker"
            "  # shows a plan for docker, container-toolkit, and asks"
        ),
        "Next: clusterctl requirements show gpu-driver rdma-link  # left to you: bootstrap has no step",
    ]


def test_a_requirement_may_need_bootstrap_on_one_node_and_a_person_on_another() -> None:
    without = Decision("docker", Status.UNMET, "no package manager")
    lines = checked(WAY, n1=(without,), n2=(FIXABLE,))
    assert [line.split()[2] for line in lines] == ["bootstrap", "requirements"]


def test_a_replay_contacts_no_node() -> None:
    assert checked(None, n1=(FIXABLE, STUCK)) == [
        "Next: clusterctl requirements show gpu-driver docker  # what they check"
    ]
    assert checked(None, n1=(MET,)) == []


def test_after_bootstrap_nothing_leads_back_to_it() -> None:
    def after(*decisions: Decision) -> list[str]:
        return list(next_lines(after_bootstrap(HostMap({"n1": decisions}), Way())))

    assert after(MET) == ["Next: clusterctl bench  # measures the nodes"]
    assert after(MET, LATER, STUCK) == [
        (
            "Next: clusterctl requirements show gpu-driver container-toolkit"
            "  # left to you: no further step is possible"
        )
    ]


def test_what_no_launch_needs_does_not_hold_the_next_stage_up() -> None:
    ready = tuple(Decision(name, Status.MET, "") for name in NEEDED)
    stuck = Decision("time-sync", Status.UNMET, "no server answers")
    assert checked(Way(), n1=(*ready, stuck)) == [
        "Next: clusterctl bench  # measures the nodes",
        "Next: clusterctl requirements show time-sync  # left to you: bootstrap has no step",
    ]
    assert [step.command for step in after_bootstrap(HostMap({"n1": (*ready, stuck)}), Way())] == [
        "clusterctl bench",
        "clusterctl requirements show time-sync",
    ]


def test_this_machine_is_named_to_bootstrap_only() -> None:
    way = Way(is_local=True)
    assert checked(way, n1=(FIXABLE,))[0].startswith("Next: clusterctl bootstrap --local  #")
    assert checked(way, n1=(MET,)) == ["Next: clusterctl bench  # measures the nodes"]


def test_a_narrow_terminal_cuts_no_command() -> None:
    step = NextStep("clusterctl bootstrap 'my fleet.yaml' --limit 'gpu[01-04]'", "shows a plan, and asks")
    assert list(next_lines([step], 60)) == [
        "Next: clusterctl bootstrap 'my fleet.yaml' --limit 'gpu[01-04]'",
        "      # shows a plan, and asks",
    ]
