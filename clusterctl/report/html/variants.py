"""The variants of one run as series of the charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.documents.bench import BenchResult
from clusterctl.report.html import figures
from clusterctl.report.html.chart import Chart


def charts(result: BenchResult, bounds: Sequence[tuple[str, float]]) -> list[Chart]:
    """Return the charts of a run's medians, with minimum and maximum of the repeats as bars."""
    sweeps = [(one.name, one.rows) for one in result.variants]
    curves = [(one.name, one.points, windows(result)) for one in result.variants]
    found = figures.busbw(sweeps, bounds), figures.times(sweeps), figures.scaling(curves)
    return [one for one in found if one is not None]


def windows(result: BenchResult) -> Mapping[str, float]:
    """Return the spread of the timed windows of a training that was measured once; else that of repeats counts."""
    once = len(result.variants) == 1 and result.repeats == 1
    return (result.proof.spread or {}) if once else {}
