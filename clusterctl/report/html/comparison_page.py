"""The page that compares several runs."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.report.html import bounds, configuration, figures, heat_map, page, variants
from clusterctl.report.text.comparison import cautions, noise_words, once_words
from clusterctl.report.view import Block
from clusterctl.results.comparison import Comparison
from clusterctl.results.record import Record


def render(found: Comparison, records: Sequence[Record]) -> str:
    """Return the page of a comparison and of its records, given in the same order."""
    names = found.names
    results = [record.result for record in records]
    if found.kind == "collective":
        sweeps = [(name, result.rows) for name, result in zip(names, results, strict=True)]
        charts = [figures.busbw(sweeps, bounds.common_lines(records)), figures.times(sweeps)]
    else:
        curves = [
            (name, result.points, variants.windows(result))
            for name, result in zip(names, results, strict=True)
        ]
        charts = [figures.scaling(curves)]
    benchmarks = list(dict.fromkeys(run.benchmark for run in found.runs))
    return page.render(
        "comparison.html.j2",
        title=f"{' and '.join(benchmarks)} \u00b7 {len(records)} runs compared",
        collective=found.kind == "collective",
        unit="GB/s" if found.kind == "collective" else results[0].unit,
        runs=list(zip(_titles(found), found.runs, found.repeats, strict=True)),
        letters=found.letters,
        cautions=cautions(found),
        differences=found.differences,
        charts=[one for one in charts if one is not None],
        lines=found.lines,
        noise=noise_words(found),
        once=once_words(found),
        heats=[one for name, record in zip(names, records, strict=True) if (one := _heat(name, record))],
        configuration=configuration.lines(records),
    )


def _titles(found: Comparison) -> list[str]:
    """Return the runs' names for the table of runs, whose other columns have start and id."""
    names = found.names if found.by_values else found.letters
    return [
        f"{name} (variant {variant})" if variant else name
        for name, variant in zip(names, found.variants, strict=True)
    ]


def _heat(name: str, record: Record) -> Block | None:
    result = record.result
    return heat_map.block(result.proof, record.ranks, result.unit, f"Deviation by node: {name}")
