"""In which order verdicts are shown, and what a fleet needs, in one sentence; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clusterctl.documents.kinds import VerdictOwner, VerdictStatus
from clusterctl.inventory import nodeset
from clusterctl.report.text.folding import NAMES_CHARACTERS
from clusterctl.wording import counted

HARDWARE = ("gpu-health", "gpu-driver", "fabric-manager", "rdma-link", "disk")
"""The requirements that are about hardware, where no step meets them: shown first of those left to a person."""
SECTIONS: tuple[tuple[str, str], ...] = (
    (VerdictStatus.UNMET.value, VerdictOwner.YOU.value),
    (VerdictStatus.UNMET.value, VerdictOwner.BOOTSTRAP.value),
    (VerdictStatus.UNKNOWN.value, ""),
    (VerdictStatus.MET.value, ""),
    (VerdictStatus.NOT_APPLICABLE.value, ""),
)
"""Status and owner of verdicts, in the order in which they are shown."""
OPEN = SECTIONS[:3]


def in_order(requirements: Iterable[str], owner: str) -> list[str]:
    """Return requirements as they are shown in a section: hardware first if a person must meet them."""
    named = list(requirements)
    first = [name for name in HARDWARE if name in named] if owner == VerdictOwner.YOU.value else []
    return [*first, *(name for name in named if name not in first)]


def sentence(document: Mapping[str, Any]) -> str:
    """Return what the nodes of a ``clusterctl.check/1`` document need: who must act, on which nodes."""
    answered = [node for node in document["nodes"] if node["reachable"]]
    lost = [node["name"] for node in document["nodes"] if not node["reachable"]]
    found = {section: _open(answered, *section) for section in OPEN}
    parts = []
    for section, (nodes, requirements) in found.items():
        if not nodes:
            continue
        where = "" if len(answered) == 1 else f" on {_these(nodes, len(answered))}"
        what = _named(requirements)
        if section == OPEN[0]:
            parts.append(f"{counted(len(nodes), 'node')} need{_s(nodes)} a person ({_folded(nodes)})")
        elif section == OPEN[1]:
            parts.append(f"bootstrap fixes {what}{where}")
        else:
            parts.append(f"{what} {'is' if len(requirements) == 1 else 'are'} unknown{where}")
    if answered and not parts:
        every = "all " if len(answered) > 1 and not lost else ""
        meet = "meets" if len(answered) == 1 else "meet"
        parts.append(f"{every}{counted(len(answered), 'node')} {meet} every requirement")
    if lost:
        parts.append(
            f"{counted(len(lost), 'node')} {'is' if len(lost) == 1 else 'are'} down ({_folded(lost)})"
        )
    return "; ".join(parts)


def _open(nodes: Sequence[Mapping[str, Any]], status: str, owner: str) -> tuple[list[str], list[str]]:
    """Return the nodes with verdicts of a section, and the requirements of these verdicts."""
    pairs = [
        (node["name"], verdict["requirement"])
        for node in nodes
        for verdict in node["verdicts"]
        if verdict["status"] == status and (verdict.get("owner") or "") == owner
    ]
    return [*dict.fromkeys(name for name, _ in pairs)], [*dict.fromkeys(name for _, name in pairs)]


def _s(nodes: Sequence[str]) -> str:
    return "s" if len(nodes) == 1 else ""


def _named(requirements: Sequence[str]) -> str:
    if len(requirements) == 1:
        return requirements[0]
    return counted(len(requirements), "requirement")


def _these(nodes: Sequence[str], total: int) -> str:
    if len(nodes) == total:
        return f"all {total} nodes"
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"


def _folded(nodes: Sequence[str]) -> str:
    text = nodeset.fold(nodes)
    return text if len(text) <= NAMES_CHARACTERS else f"{text[: NAMES_CHARACTERS - 3].rstrip(',-')}..."
