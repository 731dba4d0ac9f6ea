"""The evidence on a run's figures: GPUDirect by node, the comparison with a baseline, and stragglers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterctl.report.text import trust as lines_of
from clusterctl.report.text.baseline import not_judged_lines
from clusterctl.report.text.table import size

_FALLEN_BACK = ("sockets", "no-gpudirect")


@dataclass(frozen=True, slots=True)
class NodeWays:
    """One node's paths to the others as text, and whether the node lost the fast path."""

    node: str
    status: str
    send: str
    receive: str
    why: str
    bad: bool


@dataclass(frozen=True, slots=True)
class Below:
    """One figure below its baseline."""

    what: str
    value: str
    baseline: str
    loss: str
    allowed: str


def ways(proof: Mapping[str, Any]) -> list[NodeWays]:
    """Return ``proof.gpudirect`` as lines of a table, nodes that lost the fast path first."""
    nodes = (proof.get("gpudirect") or {}).get("nodes") or ()
    found = [
        NodeWays(
            str(node["name"]),
            str(node["status"]),
            _counted(node.get("send") or {}),
            _counted(node.get("receive") or {}),
            ". ".join(str(text) for text in (node.get("cause"), node.get("hint")) if text),
            node["status"] in _FALLEN_BACK,
        )
        for node in nodes
    ]
    return sorted(found, key=lambda node: not node.bad)


def _counted(channels: Mapping[str, int]) -> str:
    return ", ".join(f"{way} \u00d7{count}" for way, count in channels.items()) or "-"


def below(proof: Mapping[str, Any]) -> list[Below]:
    """Return the figures below their baseline as lines of a table."""
    return [
        Below(
            _what(one),
            f"{one['value']:g} {one['unit']}",
            f"{one['baseline']:g} {one['unit']}",
            f"{one['loss'] * 100:.1f} %",
            f"{one['allowed'] * 100:.1f} %",
        )
        for one in (proof.get("baseline") or {}).get("below") or ()
    ]


def _what(one: Mapping[str, Any]) -> str:
    measure = "throughput" if one.get("size_bytes") is None else f"busbw at {size(one['size_bytes'])}"
    return f"{measure}, {one['np']} ranks"


def baseline_sentence(proof: Mapping[str, Any]) -> str:
    """Return the outcome of the comparison with a baseline as a sentence; empty without a baseline."""
    found = proof.get("baseline") or {}
    if not found:
        return ""
    judged, low = int(found.get("judged") or 0), len(found.get("below") or ())
    of = int(found.get("figures") or judged)
    figures = f"{judged}{f' of {of}' * (of != judged)} figure{'s' * (of != 1)} judged"
    name = found["name"]
    said = {
        "ok": f"The run meets the baseline {name}: {figures}, 0 below it",
        "below-baseline": f"The run is below the baseline {name}: {figures}, {low} below it",
        "not-judged": f"The baseline {name} cannot judge this run: {figures}",
    }.get(str(found["verdict"]), f"The baseline {name} has no entry for this run")
    more = [str(found.get("reason") or ""), *not_judged_lines(found), str(found.get("hint") or "")]
    # Names in the sentence keep their case, so only the first letter is capitalised.
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in (said, *more) if text)


def health(proof: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the events of ``proof.health`` as lines of a table, the gravest first."""
    order = ("grave", "doubtful", "note")
    events = (proof.get("health") or {}).get("events") or ()
    return sorted(events, key=lambda event: order.index(str(event["effect"])))


def slow(proof: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each node or link that pairs confirmed as slow (``proof.slow``)."""
    return lines_of.slow(proof["slow"]) if proof.get("slow") else []


def stragglers(proof: Mapping[str, Any], np: int | None) -> Sequence[Mapping[str, Any]]:
    """Return the stragglers of one launch as entries of ``proof.stragglers``."""
    found: Sequence[Mapping[str, Any]] = (proof.get("stragglers") or {}).get(str(np)) or ()
    return found
