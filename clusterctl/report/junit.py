"""Verdicts as JUnit XML in the shape that Jenkins and GitLab read: one suite per node, one case per requirement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from clusterctl.visible import visible

_COUNTED = ("tests", "failures", "errors", "skipped")


def _text(value: object) -> str:
    """Return the text without characters that XML 1.0 forbids or that act on a terminal (https://www.w3.org/TR/xml/#charsets)."""
    return visible(str(value))


class Suite:
    """Build one suite and count its cases."""

    def __init__(self, root: ElementTree.Element, name: str) -> None:
        self.name = _text(name)
        self.element = ElementTree.SubElement(root, "testsuite", name=self.name)
        self.counts = dict.fromkeys(_COUNTED, 0)

    def tell(self, case: ElementTree.Element, text: str) -> None:
        """Add text to a case without failing it."""
        ElementTree.SubElement(case, "system-out").text = _text(text)

    def case(self, name: str) -> ElementTree.Element:
        self.counts["tests"] += 1
        return ElementTree.SubElement(
            self.element, "testcase", classname=self.name, name=_text(name), time="0"
        )

    def say(self, case: ElementTree.Element, element: str, counter: str, message: str, kind: str) -> None:
        self.counts[counter] += 1
        attributes = {"message": _text(message)}
        if element != "skipped":
            attributes["type"] = _text(kind)
        said = ElementTree.SubElement(case, element, attributes)
        if element != "skipped":
            said.text = _text(message)

    def end(self) -> None:
        for key, count in self.counts.items():
            self.element.set(key, str(count))
        self.element.set("time", "0")


def render(result: dict[str, Any], *, strict: bool = False) -> str:
    """Return a ``clusterctl.check/1`` document as JUnit XML (unmet: failure, unknown and unreachable: error).

    Drift is one case of the suite ``fleet``: it fails with ``strict``; otherwise it only lists the differences.
    """
    root = ElementTree.Element("testsuites", name="clusterctl check")
    suites = []
    for node in result["nodes"]:
        suite = Suite(root, node["name"])
        suites.append(suite)
        if not node["reachable"]:
            error = node["error"]
            suite.say(suite.case("reachable"), "error", "errors", error["message"], error["kind"])
        for verdict in node["verdicts"]:
            _verdict(suite, verdict)
    drift = result.get("drift", [])
    if len(result["nodes"]) > 1 or drift:
        suites.append(_fleet(root, drift, strict=strict))
    return finished(root, suites)


def finished(root: ElementTree.Element, suites: Sequence[Suite]) -> str:
    """Return the file's text with the sums of the suites' counts."""
    for suite in suites:
        suite.end()
    for key in _COUNTED:
        root.set(key, str(sum(suite.counts[key] for suite in suites)))
    root.set("time", "0")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _verdict(suite: Suite, verdict: dict[str, Any]) -> None:
    case = suite.case(verdict["requirement"])
    reason, status = verdict["reason"], verdict["status"]
    if status == "unmet":
        suite.say(case, "failure", "failures", reason, status)
    elif status == "unknown":
        suite.say(case, "error", "errors", reason, status)
    elif status == "not-applicable":
        suite.say(case, "skipped", "skipped", reason, status)
    said = [reason] if status == "met" else []
    said += [f"warning: {text}" for text in verdict.get("warnings", ())]
    if said:
        ElementTree.SubElement(case, "system-out").text = _text("\n".join(said))


def _fleet(root: ElementTree.Element, drift: list[dict[str, Any]], *, strict: bool) -> Suite:
    suite = Suite(root, "fleet")
    case = suite.case("drift")
    lines = [
        f"{', '.join(one['nodes'])}: {one['fact']} {one['value']}, others {one['others']}" for one in drift
    ]
    if drift and strict:
        suite.say(case, "failure", "failures", "\n".join(lines), "drift")
    elif drift:
        ElementTree.SubElement(case, "system-out").text = _text("\n".join(lines))
    return suite
