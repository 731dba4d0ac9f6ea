"""The expected bandwidth of the hardware (``proof.expected``), as lines of a chart and as a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.documents.proof import Expected
from clusterctl.results.record import Record

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


def lines(record: Record) -> list[tuple[str, float]]:
    """Return the bounds to draw into a chart of bus bandwidth: their names and GB/s."""
    expected = record.result.evidence.expected
    if expected is None or expected.expected_busbw_gbps is None:
        return []
    figure, limit = expected.expected_busbw_gbps, expected.limit_busbw_gbps
    found = [(f"expected {figure:.0f} GB/s ({expected.formula})", figure)]
    speeds = (row.busbw_gbps.median for row in record.result.rows if row.busbw_gbps is not None)
    highest = max(speeds, default=0.0)
    if limit is not None and limit <= max(highest, figure) * _NEAR:
        found.append((f"limit of the links {limit:.0f} GB/s", limit))
    return found


def common_lines(records: Sequence[Record]) -> list[tuple[str, float]]:
    """Return the bounds that several runs share; empty if they differ."""
    all_lines = [lines(record)[:1] for record in records]
    return all_lines[0] if all(one == all_lines[0] for one in all_lines) else []


def sentence(expected: Expected | None) -> str:
    """Return a sentence that compares the run with the bound; empty without a bound."""
    if expected is None:
        return ""
    if expected.verdict == "unknown" and expected.expected_busbw_gbps is not None:
        return f"This run was not compared with the expected bandwidth: {expected.reason}."
    if expected.verdict == "unknown":
        return f"The expected bandwidth of this hardware is not known: {expected.reason}."
    held = (
        f" {expected.busbw_gbps:.1f} GB/s are {expected.share * 100:.1f} % of the expected bandwidth;"
        if expected.share is not None
        else ""
    )
    return f"{_WORDS[expected.verdict]}{held} {expected.reason}."
