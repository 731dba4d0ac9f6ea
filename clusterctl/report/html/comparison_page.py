"""The page that compares several runs."""

from __future__ import annotations

from collections.abc import Sequence

from clusterctl.report.html import bounds, configuration, figures, page
from clusterctl.report.html.heat_map import HeatMap, of_proof
from clusterctl.report.html.run_page import ranks_of, unit_of
from clusterctl.report.text.comparison import cautions, noise_words
from clusterctl.results.comparison import Comparison
from clusterctl.results.record import Record


def render(found: Comparison, records: Sequence[Record]) -> str:
    """Return the page of a comparison and of its records, given in the same order."""
    names = found.names
    documents = [record.document for record in records]
    if found.kind == "collective":
        sweeps = [(name, document["rows"]) for name, document in zip(names, documents, strict=True)]
        charts = [figures.busbw(sweeps, bounds.common_lines(documents)), figures.times(sweeps)]
    else:
        curves = [
            (name, document["points"], (document.get("proof") or {}).get("spread") or {})
            for name, document in zip(names, documents, strict=True)
        ]
        charts = [figures.scaling(curves)]
    benchmarks = list(dict.fromkeys(run.benchmark for run in found.runs))
    return page.render(
        "comparison.html.j2",
        title=f"{' and '.join(benchmarks)} \u00b7 {len(records)} runs compared",
        collective=found.kind == "collective",
        unit="GB/s" if found.kind == "collective" else unit_of(documents[0]),
        runs=list(zip(names, found.runs, strict=True)),
        letters=[name.split()[0] for name in names],
        cautions=cautions(found),
        differences=found.differences,
        charts=[one for one in charts if one is not None],
        lines=found.lines,
        noise=noise_words(found),
        heats=[(name, one) for name, record in zip(names, records, strict=True) if (one := _heat(record))],
        configuration=configuration.lines(records),
    )


def _heat(record: Record) -> HeatMap | None:
    return of_proof(record.document.get("proof") or {}, ranks_of(record), unit_of(record.document))
