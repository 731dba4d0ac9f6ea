"""Verdicts as JUnit XML: one suite per node, one case per requirement."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree


def render(result: dict[str, Any]) -> str:
    """Return a ``clusterctl.check/1`` document as JUnit XML (unmet: failure, unknown: error)."""
    root = ElementTree.Element("testsuites", name="clusterctl check")
    for node in result["nodes"]:
        verdicts = node["verdicts"]
        suite = ElementTree.SubElement(root, "testsuite", name=node["name"])
        counted = {"tests": max(1, len(verdicts)), "failures": 0, "errors": 0, "skipped": 0}
        if not node["reachable"]:
            counted["errors"] = 1
            case = ElementTree.SubElement(suite, "testcase", classname=node["name"], name="reachable")
            ElementTree.SubElement(
                case, "error", message=node["error"]["message"], type=node["error"]["kind"]
            )
        for verdict in verdicts:
            case = ElementTree.SubElement(
                suite, "testcase", classname=node["name"], name=verdict["requirement"]
            )
            element, counter = {
                "unmet": ("failure", "failures"),
                "unknown": ("error", "errors"),
                "not-applicable": ("skipped", "skipped"),
            }.get(verdict["status"], (None, None))
            if element and counter:
                ElementTree.SubElement(case, element, message=verdict["reason"])
                counted[counter] += 1
        for key, count in counted.items():
            suite.set(key, str(count))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"
