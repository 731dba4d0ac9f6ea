"""The counts of a bootstrap or undo in words, from its document: the last line of its report, and its line in lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterctl.documents.steps import NodeStatus
from clusterctl.inventory import nodeset
from clusterctl.text.wording import counted

_NAMES_CHARACTERS = 60


def line(document: Mapping[str, Any], earlier: int = 0) -> str:
    """Return the last line of a report: ``changed: 3, failed: 1 node (gpu02), ...``.

    ``earlier`` is the number of changes that earlier parts of the run made.
    """
    summary = document["summary"]
    before = f" ({earlier} in an earlier part of this run)" if earlier else ""
    parts = [f"changed: {summary['changed']}{before}", f"failed: {_nodes(document, NodeStatus.FAILED)}"]
    if summary["not_done"]:
        parts.append(f"not done: {summary['not_done']}")
    parts += [f"planned: {summary['planned']}", f"unreachable: {_nodes(document, NodeStatus.UNREACHABLE)}"]
    return ", ".join(parts)


def _nodes(document: Mapping[str, Any], status: NodeStatus) -> str:
    count = int(document["summary"][status.value])
    return f"{counted(count, 'node')}{_names(document, status)}" if count else "0"


def short(document: Mapping[str, Any]) -> str:
    """Return what a list shows of a run: ``3 changed, 1 node failed (gpu02), 12 not done``."""
    summary = document["summary"]
    parts = [f"{summary['changed']} changed"] if summary["changed"] else []
    for status in (NodeStatus.FAILED, NodeStatus.UNREACHABLE):
        if count := int(summary[status.value]):
            parts.append(f"{counted(count, 'node')} {status.value}{_names(document, status)}")
    for word in ("not_done", "planned"):
        if count := int(summary.get(word, 0)):
            parts.append(f"{count} {word.replace('_', ' ')}")
    for word, count in open_verdicts(document).items():
        parts += [f"{count} {word}"] if count else []
    return ", ".join(parts)


def _names(document: Mapping[str, Any], status: NodeStatus) -> str:
    names = [str(node["name"]) for node in document["nodes"] if node.get("status") == status.value]
    text = nodeset.fold(names)
    if len(text) > _NAMES_CHARACTERS:
        text = text[: _NAMES_CHARACTERS - 3].rstrip(",-") + "..."
    return f" ({text})" if text else ""


def open_verdicts(document: Mapping[str, Any]) -> dict[str, int]:
    """Return how many verdicts of a bootstrap are unmet and unknown; an undo has none."""
    found = [verdict["status"] for node in document["nodes"] for verdict in node.get("verdicts", ())]
    return {word: found.count(word) for word in ("unmet", "unknown")}


def exit_code(document: Mapping[str, Any]) -> int:
    """Return 5 if no node could be reached, 1 if anything failed, was not done or is not met, else 0."""
    summary = document["summary"]
    if document["nodes"] and summary["unreachable"] == len(document["nodes"]):
        return 5
    bad = (summary["failed"], summary["unreachable"], summary["not_done"], *open_verdicts(document).values())
    return int(any(bad))
