"""The check document and its JUnit and Prometheus forms, and the exit code that goes with it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from clusterctl.cli.check import document_of, exit_code, folded
from clusterctl.report import junit, prometheus
from clusterctl.requirements.base import Status, Verdict
from clusterctl.transport.base import Failure, FailureKind, HostMap

MET = Verdict("memlock", Status.MET, "unlimited")
UNMET = Verdict("acs", Status.UNMET, 'redirects on "00:02.0"', {"word": "001d"}, ("look at the BIOS",))
UNKNOWN = Verdict("peermem", Status.UNKNOWN, "needs root")
GONE = Failure(FailureKind.REFUSED, "n3 (10.0.0.3:22) refused the connection", "is sshd running?")


def test_nodes_that_read_alike_are_one_block_and_the_lost_one_is_apart() -> None:
    text = folded(HostMap({"n1": (MET,), "n2": (MET,), "n3": GONE, "n4": (UNMET,)}))
    blocks = text.split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == ["n[1-2] (2 nodes)", "n4", "unreachable: n3"]
    assert "warning: acs: look at the BIOS" in blocks[1]


def test_the_document_counts_every_verdict_and_keeps_the_failure() -> None:
    result = document_of(HostMap({"n1": (MET, UNMET), "n3": GONE}))
    assert result["summary"] == {"met": 1, "unmet": 1, "unknown": 0, "not_applicable": 0, "unreachable": 1}
    assert result["nodes"][1] == {
        "name": "n3",
        "reachable": False,
        "error": {"kind": "refused", "message": GONE.message, "hint": GONE.hint},
        "verdicts": [],
    }
    assert result["nodes"][0]["verdicts"][1]["evidence"] == {"word": "001d"}


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ({"n1": (MET,)}, 0),
        ({"n1": (MET, UNMET)}, 1),
        ({"n1": (MET, UNKNOWN)}, 1),
        ({"n1": (MET,), "n3": GONE}, 1),
        ({"n3": GONE}, 5),
    ],
)
def test_exit_codes(outcomes: dict[str, object], expected: int) -> None:
    result = document_of(HostMap(outcomes))
    assert exit_code(result, len(outcomes)) == expected


def test_junit_has_a_suite_per_node_and_counts_that_add_up() -> None:
    root = ElementTree.fromstring(
        junit.render(document_of(HostMap({"n1": (MET, UNMET, UNKNOWN), "n3": GONE})))
    )
    first, second = root.findall("testsuite")
    assert [first.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["3", "1", "1", "0"]
    assert first.find("testcase[@name='acs']/failure").get("message") == UNMET.reason
    assert second.find("testcase/error").get("type") == "refused"


def test_prometheus_has_one_true_sample_per_requirement() -> None:
    text = prometheus.render(document_of(HostMap({"n1": (MET, UNMET), "n3": GONE})))
    assert 'clusterctl_node_reachable{node="n3"} 0' in text
    true = [
        line
        for line in text.splitlines()
        if line.startswith("clusterctl_requirement{") and line.endswith(" 1")
    ]
    assert true == [
        'clusterctl_requirement{node="n1",requirement="memlock",status="met"} 1',
        'clusterctl_requirement{node="n1",requirement="acs",status="unmet"} 1',
    ]
