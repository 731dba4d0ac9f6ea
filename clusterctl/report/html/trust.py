"""The evidence on a run's figures: GPUDirect by node, the comparison with a baseline, and stragglers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterctl.documents.kinds import Effect
from clusterctl.documents.proof import FigureBelow, HardwareEvent, Proof, SlowRank
from clusterctl.report.text import trust as lines_of
from clusterctl.report.text.baseline import not_judged_lines
from clusterctl.report.text.table import size


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


def ways(proof: Proof) -> list[NodeWays]:
    """Return ``proof.gpudirect`` as lines of a table, nodes that lost the fast path first."""
    found = [
        NodeWays(
            node.name,
            node.status,
            _counted(node.send),
            _counted(node.receive),
            ". ".join(text for text in (node.cause, node.hint) if text),
            node.fallen_back,
        )
        for node in (proof.gpudirect.nodes if proof.gpudirect else ())
    ]
    return sorted(found, key=lambda node: not node.bad)


def _counted(channels: Mapping[str, int]) -> str:
    return ", ".join(f"{way} \u00d7{count}" for way, count in channels.items()) or "-"


def below(proof: Proof) -> list[Below]:
    """Return the figures below their baseline as lines of a table."""
    return [
        Below(
            _what(one),
            f"{one.value:g} {one.unit}",
            f"{one.baseline:g} {one.unit}",
            f"{one.loss * 100:.1f} %",
            f"{one.allowed * 100:.1f} %",
        )
        for one in (proof.baseline.below if proof.baseline else ())
    ]


def _what(one: FigureBelow) -> str:
    measure = "throughput" if one.size_bytes is None else f"busbw at {size(one.size_bytes)}"
    return f"{measure}, {one.np} ranks"


def baseline_sentence(proof: Proof) -> str:
    """Return the outcome of the comparison with a baseline as a sentence; empty without a baseline."""
    found = proof.baseline
    if found is None:
        return ""
    judged, low, of, name = found.judged, len(found.below), found.figures, found.name
    figures = f"{judged}{f' of {of}' * (of != judged)} figure{'s' * (of != 1)} judged"
    said = {
        "ok": f"The run meets the baseline {name}: {figures}, 0 below it",
        "below-baseline": f"The run is below the baseline {name}: {figures}, {low} below it",
        "not-judged": f"The baseline {name} cannot judge this run: {figures}",
    }.get(found.verdict, f"The baseline {name} has no entry for this run")
    more = [found.reason or "", *not_judged_lines(found), found.hint or ""]
    # Names in the sentence keep their case, so only the first letter is capitalised.
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in (said, *more) if text)


def health(proof: Proof) -> list[HardwareEvent]:
    """Return the events of ``proof.health`` as lines of a table, the gravest first."""
    order = (Effect.GRAVE, Effect.DOUBTFUL, Effect.NOTE)
    events = proof.health.events if proof.health else ()
    return sorted(events, key=lambda event: order.index(event.effect))


def slow(proof: Proof) -> list[str]:
    """Return a sentence for each node or link that pairs confirmed as slow (``proof.slow``)."""
    return lines_of.slow(proof.slow) if proof.slow else []


def stragglers(proof: Proof, np: int | None) -> Sequence[SlowRank]:
    """Return the stragglers of one launch as entries of ``proof.stragglers``."""
    return (proof.stragglers or {}).get(str(np), ())
