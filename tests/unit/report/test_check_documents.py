"""The check document and its JUnit and Prometheus forms, by real parsers, and the exit code that goes with it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Error, JUnitXml, Skipped
from junitparser import Failure as JUnitFailure
from prometheus_client.parser import text_string_to_metric_families

from clusterctl.documents.check import Check, Deviation
from clusterctl.report import junit, prometheus
from clusterctl.report.check_document import document_of, exit_code, strictly
from clusterctl.report.text import of_view
from clusterctl.requirements.base import Decision, Status
from clusterctl.transport.base import Failure, FailureKind, HostMap
from clusterctl.views import check


def deviation(fact: str, value: str, others: str, nodes: tuple[str, ...]) -> Deviation:
    return Deviation(fact=fact, value=value, others=others, nodes=nodes, tie=False)


MET = Decision("memlock", Status.MET, "unlimited")
UNMET = Decision("acs", Status.UNMET, 'redirects on "00:02.0"', {"word": "001d"}, ("look at the BIOS",))
UNKNOWN = Decision("peermem", Status.UNKNOWN, "needs root")
NOT_HERE = Decision("docker", Status.NOT_APPLICABLE, "not wanted")
GONE = Failure(FailureKind.REFUSED, "n3 (10.0.0.3:22) refused the connection", "is sshd running?")
DRIFT = (deviation("NCCL", "2.21", "2.27", ("n1",)), deviation("kernel", "6.1", "6.8", ("n1", "n2")))


def written(result: Check, *, strict: bool = False) -> str:
    return junit.render("clusterctl check", check.view(strictly(result) if strict else result).suites())


def monitored(result: Check, at_s: float) -> str:
    return prometheus.render(check.view(result, checked_at_s=at_s).metrics())


def parsed(result: Check, *, strict: bool = False) -> JUnitXml:
    return JUnitXml.fromstring(written(result, strict=strict).encode())


def samples(result: Check) -> dict[str, list[tuple[dict[str, str], float]]]:
    text = monitored(result, 1700000000.5)
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_the_document_counts_every_verdict_and_keeps_the_failure() -> None:
    result = document_of(HostMap({"n1": (MET, UNMET), "n3": GONE}), DRIFT).document()
    nodes = {"you": 1, "bootstrap": 0, "unknown": 0, "whole": 0, "unreachable": 1}
    assert result["summary"] == {
        "met": 1, "unmet": 1, "unknown": 0, "not_applicable": 0, "unreachable": 1, "nodes": nodes,
    }  # fmt: skip
    assert [verdict.get("owner") for verdict in result["nodes"][0]["verdicts"]] == [None, "you"]
    assert result["nodes"][1] == {
        "name": "n3",
        "reachable": False,
        "error": {"kind": "refused", "message": GONE.message, "hint": GONE.hint},
        "verdicts": [],
    }
    assert result["nodes"][0]["verdicts"][1]["evidence"] == {"word": "001d"}
    assert [one["fact"] for one in result["drift"]] == ["NCCL", "kernel"]


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
    assert exit_code(result) == expected


def test_drift_alone_is_no_failure() -> None:
    assert exit_code(document_of(HostMap({"n1": (MET,)}), DRIFT)) == 0


def test_junit_has_a_suite_per_node_and_counts_that_add_up() -> None:
    xml = parsed(document_of(HostMap({"n1": (MET, UNMET, UNKNOWN, NOT_HERE), "n3": GONE})))
    first, second, fleet = xml
    assert [suite.name for suite in (first, second, fleet)] == ["n1", "n3", "fleet"]
    assert [(s.tests, s.failures, s.errors, s.skipped) for s in xml] == [
        (4, 1, 1, 1),
        (1, 0, 1, 0),
        (1, 0, 0, 0),
    ]
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (6, 1, 2, 1)
    cases = {case.name: case for case in first}
    (failure,) = cases["acs"].result
    assert isinstance(failure, JUnitFailure)
    assert (failure.message, failure.type) == (UNMET.reason, "unmet")
    assert cases["acs"].system_out == "warning: look at the BIOS"
    assert isinstance(cases["peermem"].result[0], Error)
    assert isinstance(cases["docker"].result[0], Skipped)
    assert cases["memlock"].result == []
    (error,) = next(iter(second)).result
    assert (error.type, error.message) == ("refused", GONE.message)
    counted = parsed(document_of(HostMap({"n1": (MET, UNMET, UNKNOWN, NOT_HERE)})))
    counted.update_statistics()
    assert (counted.tests, counted.failures, counted.errors) == (4, 1, 1)


def test_junit_drift_fails_only_when_it_is_strict() -> None:
    result = document_of(HostMap({"n1": (MET,), "n2": (MET,)}), DRIFT)
    lenient, strict = parsed(result), parsed(result, strict=True)
    assert (lenient.failures, strict.failures) == (0, 1)
    (drift,) = list(strict)[-1]
    assert "n1: NCCL 2.21, others 2.27" in drift.result[0].message
    assert "n1, n2: kernel 6.1, others 6.8" in next(iter(list(lenient)[-1])).system_out


def test_strict_names_the_drift_that_makes_the_exit_code_1() -> None:
    result = document_of(HostMap({"n1": (MET,), "n2": (MET,)}), DRIFT)
    strict, same = strictly(result), strictly(document_of(HostMap({"n1": (MET,)})))
    assert (exit_code(result), exit_code(strict), exit_code(same)) == (0, 1, 0)
    assert "exit code 1 by --strict: NCCL on n1; kernel on n[1-2]" in of_view.render(check.view(strict))
    assert "--strict" not in of_view.render(check.view(result)) + of_view.render(check.view(same))
    assert "strict" not in result.document() and same.document()["strict"] == []
    assert strict.document()["strict"][0] == {"name": "NCCL", "nodes": ["n1"], "reason": "2.21, others 2.27"}


def test_prometheus_has_one_true_sample_per_requirement() -> None:
    found = samples(document_of(HostMap({"n1": (MET, UNMET), "n3": GONE}), DRIFT[:1]))
    assert found["clusterctl_node_reachable"] == [({"node": "n1"}, 1.0), ({"node": "n3"}, 0.0)]
    true = [labels for labels, value in found["clusterctl_requirement"] if value == 1]
    assert true == [
        {"node": "n1", "requirement": "memlock", "status": "met"},
        {"node": "n1", "requirement": "acs", "status": "unmet"},
    ]
    assert len(found["clusterctl_requirement"]) == 8
    assert found["clusterctl_requirement_warnings"][1] == ({"node": "n1", "requirement": "acs"}, 1.0)
    assert found["clusterctl_node_drifting_facts"] == [({"node": "n1"}, 1.0)]
    assert found["clusterctl_check_timestamp_seconds"] == [({}, 1700000000.5)]


def test_prometheus_families_have_help_type_and_conventional_names() -> None:
    text = monitored(document_of(HostMap({"n1": (MET,)})), 1.0)
    families = list(text_string_to_metric_families(text))
    assert all(family.type == "gauge" and family.documentation for family in families)
    assert all(family.name.startswith("clusterctl_") for family in families)
    assert text.endswith("\n")
    assert text.count("# TYPE") == len(families)


anything = st.text(max_size=60)


@given(reason=anything, warning=anything, message=anything, node=st.text(min_size=1, max_size=30))
def test_whatever_nodes_say_both_forms_can_be_parsed(
    reason: str, warning: str, message: str, node: str
) -> None:
    verdict = Decision("acs", Status.UNMET, reason, {}, (warning,))
    result = document_of(
        HostMap({node: (verdict,), node + "2": Failure(FailureKind.ERROR, message)}),
        (deviation(reason, warning, message, (node,)),),
    )
    xml = parsed(result, strict=True)
    assert (xml.tests, xml.failures, xml.errors) == (3, 2, 1)
    found = samples(result)
    assert len(found["clusterctl_requirement"]) == 4
    if node.isprintable():
        assert found["clusterctl_node_reachable"][0][0]["node"] == node


def test_junit_is_utf8_whatever_it_holds() -> None:
    verdict = Decision("acs", Status.UNMET, "µ \x00\x1b[31m\ud800 ends")
    text = written(document_of(HostMap({"n1": (verdict,)})))
    assert "\x1b" not in text and "\x00" not in text
    assert next(iter(next(iter(JUnitXml.fromroot(_root(text)))))).result[0].message.startswith("µ ")


def _root(text: str) -> Any:
    from junitparser.junitparser import etree

    return etree.parse(io.BytesIO(text.encode())).getroot()
