"""Whether a launch finds what it needs: which verdicts count, and what the line of ``check`` says about them."""

from __future__ import annotations

import pytest

from clusterctl.report.check_document import document_of
from clusterctl.requirements.base import Decision, Status, switched_off
from clusterctl.requirements.catalog import ALL
from clusterctl.requirements.launch_ready import NEEDED, launch_ready
from clusterctl.requirements.steps import LoadModule
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.views.next_step import ready_line


def _judged(**unlike: Decision) -> tuple[Decision, ...]:
    return tuple(unlike.get(name.replace("-", "_"), Decision(name, Status.MET, "")) for name in ALL)


def _unmet(name: str, *, fixable: bool) -> Decision:
    return Decision(name, Status.UNMET, "", steps=(LoadModule("Load it", "it"),) if fixable else ())


DOWN = Failure(FailureKind.REFUSED, "connection refused")


def _line(**nodes: tuple[Decision, ...] | Failure) -> str | None:
    return ready_line(document_of(HostMap(dict(nodes))).ready_to_launch)


def test_every_needed_requirement_is_in_the_catalogue():
    assert set(ALL) >= NEEDED


def test_nodes_that_meet_everything_are_ready():
    assert _line(n1=_judged(), n2=_judged()) == "ready to launch: yes"


def test_what_is_missing_on_one_node_is_missing_and_its_owner_is_named():
    mpi, unread = _unmet("mpi", fixable=True), Decision("memlock", Status.UNKNOWN, "")
    assert _line(n1=_judged(), n2=_judged(mpi=mpi)) == "ready to launch: no (bootstrap fixes mpi)"
    assert _line(
        n1=_judged(memlock=unread), n2=_judged(mpi=mpi, ssh_mesh=_unmet("ssh-mesh", fixable=True))
    ) == ("ready to launch: no (bootstrap fixes ssh-mesh, mpi; left to you: memlock)")


def test_what_no_launch_needs_does_not_count():
    assert _line(n1=_judged(docker=_unmet("docker", fixable=True))) == "ready to launch: yes"


def test_an_unreachable_node_prevents_a_launch():
    assert _line(n1=_judged(), n2=DOWN) == "ready to launch: no (1 node unreachable)"


def test_what_the_operator_switched_off_is_said_and_does_not_count():
    off = switched_off("mpi", "requirements.mpi.require")
    assert _line(n1=_judged(mpi=off)) == "ready to launch: yes (switched off: mpi)"


def test_what_was_not_checked_is_said():
    decisions = tuple(one for one in _judged() if one.requirement != "names")
    assert _line(n1=decisions) == "ready to launch: yes (not checked: names)"


@pytest.mark.parametrize("verdicts", [{}, {"n1": (Decision("acs", Status.MET, ""),)}])
def test_without_a_verdict_that_matters_nothing_is_said(verdicts):
    assert launch_ready(verdicts, 0) is None
    assert "ready_to_launch" not in document_of(HostMap(verdicts)).document()
