"""The page that compares several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.report.html import bounds, configuration, figures, page, variants
from clusterctl.report.html.heat_map import HeatMap, of_proof
from clusterctl.report.html.run_page import ranks_of, unit_of
from clusterctl.report.text.comparison import cautions, noise_words, once_words
from clusterctl.results.comparison import Comparison
from clusterctl.results.record import Record


def render(found: Comparison, records: Sequence[Record]) -> str:
    """Return the page of a comparison and of its records, given in the same order."""
    names = found.names
    documents = [record.document for record in records]
    if found.kind == "collective":
        sweeps = [(name, variants.rows_of(document)) for name, document in zip(names, documents, strict=True)]
        charts = [figures.busbw(sweeps, bounds.common_lines(records)), figures.times(sweeps)]
    else:
        curves = [
            (name, variants.points_of(record.document), _windows(record))
            for name, record in zip(names, records, strict=True)
        ]
        charts = [figures.scaling(curves)]
    benchmarks = list(dict.fromkeys(run.benchmark for run in found.runs))
    return page.render(
        "comparison.html.j2",
        title=f"{' and '.join(benchmarks)} \u00b7 {len(records)} runs compared",
        collective=found.kind == "collective",
        unit="GB/s" if found.kind == "collective" else unit_of(documents[0]),
        runs=list(zip(_titles(found), found.runs, found.repeats, strict=True)),
        letters=found.letters,
        cautions=cautions(found),
        differences=found.differences,
        charts=[one for one in charts if one is not None],
        lines=found.lines,
        noise=noise_words(found),
        once=once_words(found),
        heats=[(name, one) for name, record in zip(names, records, strict=True) if (one := _heat(record))],
        configuration=configuration.lines(records),
    )


def _titles(found: Comparison) -> list[str]:
    """Return the runs' names for the table of runs, whose other columns have start and id."""
    names = found.names if found.by_values else found.letters
    return [
        f"{name} (variant {variant})" if variant else name
        for name, variant in zip(names, found.variants, strict=True)
    ]


def _windows(record: Record) -> Mapping[str, float]:
    """Return the spread of the timed windows of a training without repeats."""
    return {} if record.document.get("variants") else record.proof.spread or {}


def _heat(record: Record) -> HeatMap | None:
    return of_proof(record.proof, ranks_of(record), unit_of(record.document))
