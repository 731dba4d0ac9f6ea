"""What ``bootstrap`` tells to type after steps that failed."""

from types import SimpleNamespace

import pytest

from clusterctl.apply import bootstrap as engine
from clusterctl.apply.execute import NodeOutcome, StepOutcome
from clusterctl.cli.bootstrap import command
from clusterctl.documents.kinds import AppliedStatus
from clusterctl.transport.base import HostMap


@pytest.mark.parametrize("status", AppliedStatus)
def test_a_failed_step_is_followed_by_the_command_that_resumes(status, monkeypatch, capsys):
    step = StepOutcome("cluster-file", "Write /etc/x", status)
    result = SimpleNamespace(outcomes={"gpu01": NodeOutcome((step,), None)})
    monkeypatch.setattr(engine, "apply", lambda *_: result)
    prepared = SimpleNamespace(inventory=SimpleNamespace(source="i.yaml"), verdicts=HostMap({}))
    run, shown = SimpleNamespace(path="runs/x", id="x"), SimpleNamespace(on_stdout=True, later=None)
    assert command._applied(None, prepared, run, shown) is result
    hint = "hint: to do the remaining steps, once the cause is fixed: clusterctl bootstrap --resume runs/x\n"
    assert capsys.readouterr().err == (hint if status is AppliedStatus.FAILED else "")
