"""The verdicts of ``accept`` as JUnit XML: one suite per node, one case per row."""

from __future__ import annotations

from xml.etree import ElementTree

from clusterctl.documents.accept import Accept, AcceptedRow, RowStatus
from clusterctl.report.junit import Suite, finished
from clusterctl.report.text.accept import source_of


def render(found: Accept) -> str:
    """Return the document as JUnit XML: FAIL is a failure, NOT RUN and unreachable are errors, WARN is text."""
    root = ElementTree.Element("testsuites", name="clusterctl accept")
    suites = []
    for node in found.nodes:
        suite = Suite(root, node.name)
        suites.append(suite)
        if node.error is not None:
            suite.say(suite.case("reachable"), "error", "errors", node.error.message, node.error.kind.value)
        for row in node.rows:
            _case(suite, row)
    return finished(root, suites)


def _case(suite: Suite, row: AcceptedRow) -> None:
    case = suite.case(row.row)
    if row.status is RowStatus.FAIL:
        suite.say(case, "failure", "failures", row.reason, row.status.value)
    elif row.status is RowStatus.NOT_RUN:
        suite.say(case, "error", "errors", row.reason, row.status.value)
    elif row.status is RowStatus.NOT_APPLICABLE:
        suite.say(case, "skipped", "skipped", row.reason, row.status.value)
    lines = [f"warning: {row.reason}"] if row.status is RowStatus.WARN else []
    lines += [
        f"{one.device + ': ' if one.device else ''}{one.field} {one.value:.6g} {one.unit}"
        + (f", wanted {one.limit} ({one.source})" if one.limit else "")
        for one in row.values
    ]
    if source_of(row):
        lines.append(source_of(row))
    if lines:
        suite.tell(case, "\n".join(lines))
