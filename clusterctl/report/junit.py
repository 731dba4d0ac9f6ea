"""Suites as JUnit XML in the shape that Jenkins and GitLab read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from xml.etree import ElementTree

from clusterctl.report.view import Case, CaseEnd, Suite
from clusterctl.text.visible import visible

_COUNTED = {CaseEnd.FAILURE: "failures", CaseEnd.ERROR: "errors", CaseEnd.SKIPPED: "skipped"}


def render(name: str, suites: Iterable[Suite]) -> str:
    """Return the file's text with the sums of the suites' counts."""
    root = ElementTree.Element("testsuites", name=name)
    total: Counter[str] = Counter()
    known = tuple(suites)
    for suite in known:
        own = _text(suite.name)
        element = ElementTree.SubElement(root, "testsuite", name=own)
        for case in suite.cases:
            _add(element, case, own)
        counts = Counter(_COUNTED[case.end] for case in suite.cases if case.end in _COUNTED)
        counts["tests"] = len(suite.cases)
        total += counts
        _count(element, counts)
        _set_time(element, suite.cases)
    _count(root, total)
    _set_time(root, [case for suite in known for case in suite.cases])
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add(suite: ElementTree.Element, case: Case, suite_name: str) -> None:
    found = ElementTree.SubElement(suite, "testcase", classname=suite_name, name=_text(case.name))
    _set_time(found, (case,))
    if case.end is CaseEnd.SKIPPED:
        ElementTree.SubElement(found, case.end.value, message=_text(case.message))
    elif case.end is not CaseEnd.PASSED:
        attributes = {"message": _text(case.message), "type": _text(case.kind)}
        ElementTree.SubElement(found, case.end.value, attributes).text = _text(case.message)
    if case.told:
        ElementTree.SubElement(found, "system-out").text = _text(case.told)


def _count(element: ElementTree.Element, counts: Counter[str]) -> None:
    for key in ("tests", "failures", "errors", "skipped"):
        element.set(key, str(counts[key]))


def _set_time(element: ElementTree.Element, cases: Iterable[Case]) -> None:
    """Set the sum of the cases' seconds; no attribute where none is known, which Jenkins and GitLab read as no time."""
    seconds = [case.seconds for case in cases if case.seconds is not None]
    if seconds:
        element.set("time", f"{sum(seconds):.3f}")


def _text(value: str) -> str:
    """Return the text without characters that XML 1.0 forbids or that act on a terminal (https://www.w3.org/TR/xml/#charsets)."""
    return visible(value)
