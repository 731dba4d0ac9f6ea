"""What ``bootstrap`` tells to type after steps that failed."""

from types import SimpleNamespace

import pytest

from clusterctl.apply.execute import NodeOutcome, StepOutcome
from clusterctl.cli.bootstrap import command
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.transport.base import HostMap


@pytest.mark.parametrize("status", AppliedStatus)
def test_a_failed_step_is_followed_by_the_command_that_resumes(status, capsys):
    step = StepOutcome("cluster-file", "Write /etc/x", status)
    result = SimpleNamespace(outcomes={"gpu01": NodeOutcome((step,), None)})
    prepared, run = SimpleNamespace(verdicts=HostMap({})), SimpleNamespace(path="runs/x")
    command._say_what_is_left(prepared, result, run)
    hint = "hint: to do the remaining steps, once the cause is fixed: clusterctl bootstrap --resume runs/x\n"
    assert capsys.readouterr().err == (hint if status is AppliedStatus.FAILED else "")
