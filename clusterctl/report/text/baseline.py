"""Baselines and published figures as tables."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.benchmarks.key import ABSENT
from clusterctl.documents.baseline import Published
from clusterctl.documents.proof import BaselineVerdict
from clusterctl.report.text.table import columns, fits, size, with_notes
from clusterctl.results.baseline import ENOUGH_REPEATS, MOST_REPEATS, Baseline, BaselineEntry, Series
from clusterctl.text.wording import counted


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
            _allowed(one),
        ]
        for one in entry.series
    ]
    return f"{key}\n{_repeats(entry)}\n" + columns(
        ["figure", "median", "unit", "cv", "allowed drop"], rows, left=(0, 2)
    )


def _allowed(one: Series) -> str:
    if one.noisy:
        return f"too noisy, {_needs(one.needed)}"
    return "not judged" if one.allowed is None else _percent(one.allowed)


def _needs(repeats: int | None) -> str:
    return f"needs more than {MOST_REPEATS} repeats" if repeats is None else f"needs about {repeats} repeats"


def _repeats(entry: BaselineEntry) -> str:
    runs = len(entry.runs)
    return f"{counted(entry.repeats, 'repeat')} from {counted(runs, 'run')}"


def recorded(baseline: Baseline) -> list[str]:
    """Return a line per configuration with its repeats, and a warning for figures that cannot be judged."""
    lines = []
    for one in baseline.entries:
        missing = ENOUGH_REPEATS - one.repeats
        more = f"; {missing} more make it noise-aware" if missing > 0 else ""
        lines.append(f"{one.key['benchmark']} on {one.key['np']} ranks: {_repeats(one)}{more}")
        lines += [
            f"warning: {text}"
            for text in noisy_lines([(s.size_bytes, s.cv or 0.0, len(s.values), s.needed) for s in one.noisy])
        ]
    return lines


def noisy_lines(figures: Sequence[tuple[int | None, float, int, int | None]]) -> list[str]:
    """Return what is too noisy to judge and how many repeats it needs.

    ``figures`` are sizes (None: a throughput), coefficients of variation, recorded and needed repeats. Figures that
    need equally many repeats share a line.
    """
    lines = []
    for needed in dict.fromkeys(one[3] for one in figures):
        alike = [one for one in figures if one[3] == needed]
        what = _named([at for at, *_ in alike])
        vary = f"the {alike[0][2]} repeats vary by {100 * max(cv for _, cv, *_ in alike):.1f} %"
        todo = (
            f"even {MOST_REPEATS} repeats are too few" if needed is None else f"record about {needed} repeats"
        )
        lines.append(f"too noisy to judge: {what} ({vary}; {todo})")
    return lines


def not_judged_lines(entry: BaselineVerdict) -> list[str]:
    """Return why figures were not judged (``proof.baseline``): the baseline lacks them, or they are too noisy."""
    absent = [row.size_bytes for row in entry.not_recorded]
    noisy = [(row.size_bytes, row.cv, row.repeats, row.needed) for row in entry.too_noisy]
    return [*([f"not in the baseline: {_named(absent)}"] if absent else []), *noisy_lines(noisy)]


def _named(sizes: Sequence[int | None]) -> str:
    return ", ".join("throughput" if at is None else size(at) for at in dict.fromkeys(sizes))


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
