"""Benchmarks as JUnit XML: a suite per run with one passing case, or one failed case per failure."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from clusterctl.documents.proof import Proof
from clusterctl.report.junit import Suite, finished
from clusterctl.report.text import trust as trust_lines
from clusterctl.report.text.runs import figure
from clusterctl.results.record import Record
from clusterctl.wording import counted


def render(records: Iterable[Record]) -> str:
    """Return the runs as JUnit XML in the shape that Jenkins and GitLab read."""
    root = ElementTree.Element("testsuites", name="clusterctl bench")
    return finished(root, [_suite(root, record) for record in records])


def _why(record: Record) -> str:
    """Return the status of a run without failures, with the faults of its hardware and the baseline it missed."""
    said = trust_lines.lines(Proof(health=record.result.proof.health, baseline=record.result.proof.baseline))
    return "\n".join([f"the run is {record.summary.status}", *said])


def _suite(root: ElementTree.Element, record: Record) -> Suite:
    summary = record.summary
    suite = Suite(root, f"{summary.benchmark}.{summary.run}")
    ranks = "no rank" if summary.np is None else f"{counted(summary.np, 'rank')}"
    what = f"{summary.benchmark}, {summary.library or 'no library'}, {ranks}"
    failures = record.result.proof.failures or ()
    for failure in failures:
        kind = failure.kind.value
        hint = f"\nhint: {failure.hint}" if failure.hint else ""
        suite.say(suite.case(f"{what}: {kind}"), "failure", "failures", f"{failure.message}{hint}", kind)
    if not failures:
        case = suite.case(what)
        if summary.status == "ok":
            suite.tell(case, f"best: {figure(summary)} on {summary.hardware or 'unknown hardware'}")
        else:
            suite.say(case, "failure", "failures", _why(record), summary.status)
    return suite
