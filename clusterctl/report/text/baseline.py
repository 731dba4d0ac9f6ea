"""Baselines and published figures as tables."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.benchmarks.key import ABSENT
from clusterctl.documents.baseline import Published
from clusterctl.report.text.table import columns, fits, size, with_notes
from clusterctl.results.baseline import Baseline, BaselineEntry


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _entry(entry: BaselineEntry) -> str:
    key = ", ".join(f"{name} {value}" for name, value in entry.key.items() if value != ABSENT)
    rows = [
        [
            "throughput" if one.size_bytes is None else size(one.size_bytes),
            f"{one.median:.2f}",
            one.unit,
            _percent(one.cv),
            "not judged" if one.allowed is None else _percent(one.allowed),
        ]
        for one in entry.series
    ]
    return f"{key}\n{len(entry.runs)} run(s)\n" + columns(
        ["figure", "median", "unit", "cv", "allowed drop"], rows, left=(0, 2)
    )


def render(baseline: Baseline) -> str:
    """Return a baseline's entries, one table each."""
    return "\n\n".join(_entry(entry) for entry in baseline.entries) or "the baseline has no entries"


def published(rows: Sequence[Published], width: int | None = None) -> str:
    """Return the catalogue of published figures; a table wider than ``width`` gets its sources on separate lines."""
    cells = [
        [row.hardware, row.collective, str(row.np), str(row.nodes), size(row.size_bytes), f"{row.busbw_gbps:g}",
         row.provenance, row.source]
        for row in rows
    ]  # fmt: skip
    heads = ["hardware", "collective", "ranks", "nodes", "size", "busbw GB/s", "provenance", "source"]
    text = columns(heads, cells, left=(0, 1, 6, 7))
    if width is None or fits(text, width):
        return text
    figures = columns(heads[:-2], [row[:-2] for row in cells], left=(0, 1))
    return with_notes(figures, [f"{row.provenance}: {row.source}" for row in rows], width)
