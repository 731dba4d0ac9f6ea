"""What ``bootstrap`` names as the next command."""

from types import SimpleNamespace

import pytest

from clusterctl.apply.execute import NodeOutcome, StepOutcome
from clusterctl.apply.plan.model import NodePlan, Plan
from clusterctl.cli.bootstrap import command
from clusterctl.cli.terminal import interrupt
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.requirements.base import Decision, Status
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.views.next_step import Way

MET = HostMap({"gpu01": (Decision("memlock", Status.MET, "unlimited"),)})
RUN = SimpleNamespace(path="runs/x")


def _next(result, verdicts=MET, plan=None, *, dry_run=False, asks=True, with_reason=False):
    prepared = SimpleNamespace(verdicts=verdicts, plan=plan or Plan(()), busy={})
    following = command._following(prepared, result, RUN, Way(), dry_run=dry_run, asks=asks)
    return [f"{one.command}  # {one.why}" if with_reason else one.command for one in following]


def _result(status, verdicts=MET, *, needs_reboot=False):
    step = StepOutcome("cluster-file", "Write /etc/x", status)
    outcomes = {"gpu01": NodeOutcome((step,), None)}
    return SimpleNamespace(outcomes=outcomes, verdicts=verdicts, needs_reboot=needs_reboot)


@pytest.mark.parametrize("status", AppliedStatus)
def test_a_failed_step_is_followed_by_the_command_that_resumes(status):
    failed = status is AppliedStatus.FAILED
    assert _next(_result(status)) == [
        "clusterctl bootstrap --resume runs/x" if failed else "clusterctl bench"
    ]


def test_nodes_that_were_not_reached_and_reboots_are_a_matter_of_the_same_run():
    lost = HostMap({**dict(MET.items()), "gpu02": Failure(FailureKind.TIMEOUT, "no answer")})
    done = _result(AppliedStatus.CHANGED, lost)
    assert _next(done, lost) == ["clusterctl bootstrap --resume runs/x"]
    boot = _result(AppliedStatus.SKIPPED, needs_reboot=True)
    assert _next(boot) == ["clusterctl bootstrap --resume runs/x --reboot"]


def test_a_dry_run_is_followed_by_the_same_command_without_that_option():
    interrupt.begin(["bootstrap", "my fleet.yaml", "--dry-run", "--batch", "2"])
    plan = Plan((NodePlan("gpu01", (SimpleNamespace(step=None),)),))
    assert _next(None, plan=plan, dry_run=True) == ["clusterctl bootstrap 'my fleet.yaml' --batch 2"]
    assert _next(None, dry_run=True) == ["clusterctl bench"]


@pytest.mark.parametrize(("asks", "why"), [(True, "shows this plan, and asks"), (False, "applies this plan")])
def test_with_yes_nothing_is_asked_after_a_dry_run(asks, why):
    interrupt.begin(["bootstrap", "--dry-run"])
    plan = Plan((NodePlan("gpu01", (SimpleNamespace(step=None),)),))
    (one,) = _next(None, plan=plan, dry_run=True, asks=asks, with_reason=True)
    assert one == f"clusterctl bootstrap  # {why}"
