"""The expected bandwidth of the hardware (``proof.expected``), as lines of a chart and as a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# A limit far above the figures would squeeze them into the lower part of the chart.
_NEAR = 1.35
# How the sentence of each verdict begins; the sentence for "unknown" consists of its reason only.
_WORDS = {
    "fine": "As expected.",
    "warn": "Less than expected.",
    "slow": "Much less than expected.",
    "impossible": "Not possible.",
}
BAD = ("warn", "slow", "impossible")


def lines(document: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the bounds to draw into a chart of bus bandwidth: their names and GB/s."""
    expected = of(document)
    figure, limit = expected.get("expected_busbw_gbps"), expected.get("limit_busbw_gbps")
    if figure is None:
        return []
    found = [(f"expected {figure:.0f} GB/s ({expected.get('formula')})", float(figure))]
    highest = max((row.get("busbw_gbps") or 0.0 for row in document.get("rows") or ()), default=0.0)
    if limit is not None and limit <= max(highest, figure) * _NEAR:
        found.append((f"limit of the links {limit:.0f} GB/s", float(limit)))
    return found


def common_lines(documents: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
    """Return the bounds that several runs share; empty if they differ."""
    all_lines = [lines(document)[:1] for document in documents]
    return all_lines[0] if all(one == all_lines[0] for one in all_lines) else []


def of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``proof.expected`` of a document; empty if it is missing."""
    expected = (document.get("proof") or {}).get("expected")
    return expected if isinstance(expected, Mapping) else {}


def sentence(document: Mapping[str, Any]) -> str:
    """Return a sentence that compares the run with the bound; empty without a bound."""
    expected = of(document)
    if not expected:
        return ""
    reason = str(expected.get("reason") or "")
    verdict = expected.get("verdict")
    if verdict == "unknown" and expected.get("expected_busbw_gbps") is not None:
        return f"This run was not compared with the expected bandwidth: {reason}."
    if verdict == "unknown":
        return f"The expected bandwidth of this hardware is not known: {reason}."
    share = expected.get("share")
    held = (
        f" {expected['busbw_gbps']:.1f} GB/s are {share * 100:.1f} % of the expected bandwidth;"
        if share is not None
        else ""
    )
    return f"{_WORDS.get(str(verdict), str(verdict))}{held} {reason}."
