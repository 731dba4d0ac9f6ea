"""The next command after a check: bootstrap for what it can fix, and the pages of the rest."""

from __future__ import annotations

from clusterctl.report.text.next_step import next_lines
from clusterctl.requirements.base import Decision, Status
from clusterctl.requirements.steps import EnableUnit

BOOTSTRAP = ("clusterctl", "bootstrap", "my fleet.yaml", "--limit", "gpu[01-04]")
MET = Decision("acs", Status.MET, "off")
FIXABLE = Decision("docker", Status.UNMET, "stopped", steps=(EnableUnit("Enable docker", "docker.service"),))
STUCK = Decision("gpu-driver", Status.UNMET, "no driver")
UNREAD = Decision("rdma-link", Status.UNKNOWN, "needs root")


def test_nothing_is_left_to_do() -> None:
    assert list(next_lines([(MET,), ()], BOOTSTRAP)) == []


def test_bootstrap_fixes_what_has_steps_and_the_rest_has_pages() -> None:
    assert list(next_lines([(MET, FIXABLE, STUCK), (UNREAD,)], BOOTSTRAP)) == [
        "Next: clusterctl bootstrap 'my fleet.yaml' --limit 'gpu[01-04]'  # shows a plan for docker, and asks",
        "Next: clusterctl requirements show gpu-driver rdma-link  # bootstrap has no step for these",
    ]


def test_a_step_on_one_node_is_enough() -> None:
    without = Decision("docker", Status.UNMET, "no package manager")
    (line,) = next_lines([(without,), (FIXABLE,), (without,)], BOOTSTRAP)
    assert "for docker" in line


def test_a_replay_contacts_no_node() -> None:
    assert list(next_lines([(FIXABLE,)], None)) == [
        "Next: clusterctl requirements show docker  # what fixes it"
    ]


def test_a_narrow_terminal_cuts_no_command() -> None:
    lines = list(next_lines([(FIXABLE,)], BOOTSTRAP, 60))
    assert lines == [
        "Next: clusterctl bootstrap 'my fleet.yaml' --limit 'gpu[01-04]'",
        "      # shows a plan for docker, and asks",
    ]
