"""The view of ``runs compare``: the runs, how their setups differ, and each figure relative to the first run's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from clusterctl.benchmarks.key import ABSENT, FIELDS
from clusterctl.documents.measured_runs import StoredRun
from clusterctl.report import csv, junit, prometheus
from clusterctl.report.figures import Chart
from clusterctl.report.line import Tone
from clusterctl.report.text.table import noise_share, size
from clusterctl.report.view import TONES, Block, Case, CaseEnd, Cell, Head, Metric, Suite, Table, View
from clusterctl.results import words
from clusterctl.results.comparison import Comparison, Figure
from clusterctl.results.noise import FLOOR
from clusterctl.results.record import Record
from clusterctl.text.wording import counted
from clusterctl.views import bench_sentence, bounds, charts, heat_map
from clusterctl.views.tones import OF_WORDS

Form = Literal["csv", "junit", "prometheus"]
COLUMNS = (
    "run", "against", "benchmark", "library", "size_bytes", "np", "time_us", "busbw_gbps", "samples_per_s", "ratio",
    "noise", "word", "repeats_needed",
)  # fmt: skip
_METRICS = {
    "speed_ratio": "Speed relative to the run `against`; above 1 is faster.",
    "comparison": "1 for the word that the repeats allow: faster, slower, within noise, undecided.",
}


def view(found: Comparison, records: Sequence[Record]) -> View:
    """Return what people see of a comparison and of its records, given in the same order."""
    runs = tuple(map(_run, found.names, found.runs, found.repeats, found.variants))
    warned = cautions(found)
    unit = "GB/s" if found.kind == "collective" else records[0].result.unit
    after = (_noise(found), _once(found), found.undecided)
    title = "Every message size" if found.kind == "collective" else "Every number of ranks"
    heats = (
        heat_map.block(one.result.proof, one.ranks, one.result.unit, f"Deviation by node: {name}")
        for name, one in zip(found.names, records, strict=True)
    )
    blocks = (
        Block("", lines=(*runs, *(f"CAUTION: {one}" for one in warned)), on_page=False),
        Block("", tables=(_runs(found, records),), on_terminal=False),
        Block(
            "These runs differ", before="Ratios include all of these effects:", lines=tuple(warned),
            tone=Tone.OPEN, on_terminal=False,
        )
        if warned
        else Block(
            "", before="The runs have the same configuration.", tone=Tone.FAINT, on_terminal=False
        ),
        Block("", charts=tuple(_charts(found, records)), on_terminal=False),
        Block(title, tables=(_figures(found, unit, title),), after=tuple(filter(None, after))),
        *(one for one in heats if one is not None),
        Block("Configuration", tables=(_configuration(records, found.letters),), on_terminal=False),
    )  # fmt: skip
    benchmarks = dict.fromkeys(run.benchmark for run in found.runs)
    return View(
        title=f"{' and '.join(benchmarks)} \u00b7 {len(records)} runs compared",
        sentence=_sentence(found),
        blocks=tuple(one for one in blocks if not one.is_empty),
        variants=found.names,
        suites=lambda: (Suite("runs compare", tuple(_cases(found))),),
        metrics=lambda: _metrics(found),
        lines=lambda: _lines(found),
    )


def form(name: Form, view: View) -> str:
    """Return a comparison as a file of this form."""
    if name == "csv":
        return csv.render(COLUMNS, view.lines())
    if name == "junit":
        return junit.render("clusterctl runs compare", view.suites())
    return prometheus.render(view.metrics())


def _compared(found: Comparison, index: int) -> Iterator[tuple[int, Figure]]:
    """Yield each figure of a run, with its size in bytes or its number of ranks."""
    for line in found.lines:
        if (figure := line.figures[index]) is not None:
            yield line.at, figure


def _cases(found: Comparison) -> Iterator[Case]:
    """Yield a case for each run after the first one: a run that failed is a failure, a slower one is not."""
    for (index, run), said in zip(enumerate(found.runs[1:], 1), _against(found), strict=True):
        told = [said, *(f"caution: {one}" for one in cautions(found))]
        for place, one in _compared(found, index):
            if one.ratio is not None:
                at = size(place) if found.kind == "collective" else counted(place, "rank")
                told.append(
                    f"{at}: {one.ratio:.3f} times the speed" + (f", {one.word.value}" if one.word else "")
                )
        name = f"{run.benchmark}, {run.run} against {found.runs[0].run}"
        if run.status == "ok":
            yield Case(name, told="\n".join(told))
        else:
            yield Case(name, CaseEnd.FAILURE, run.status, f"the run is {run.status}", "\n".join(told))


def _names(found: Comparison, run: StoredRun) -> dict[str, object]:
    return {"run": run.run, "against": found.runs[0].run, "benchmark": run.benchmark}


def _place(found: Comparison, at: int) -> dict[str, object]:
    return {"size_bytes" if found.kind == "collective" else "np": at}


def _metrics(found: Comparison) -> Iterator[Metric]:
    samples: dict[str, list[tuple[Mapping[str, object], float]]] = {"speed_ratio": [], "comparison": []}
    for index, run in enumerate(found.runs[1:], 1):
        for at, one in _compared(found, index):
            labels = {**_names(found, run), **_place(found, at)}
            if one.ratio is not None:
                samples["speed_ratio"].append((labels, one.ratio))
            if one.word is not None:
                samples["comparison"].append(({**labels, "word": one.word.value}, 1))
    for name, said in _METRICS.items():
        yield Metric(f"clusterctl_compare_{name}", said, tuple(samples[name]))


def _lines(found: Comparison) -> Iterator[dict[str, object]]:
    for index, run in enumerate(found.runs):
        for at, one in _compared(found, index):
            yield {
                **_names(found, run), "library": run.library, **_place(found, at), "time_us": one.time_us,
                "busbw_gbps" if found.kind == "collective" else "samples_per_s": one.value,
                "ratio": one.ratio, "noise": one.noise, "word": one.word.value if one.word else None,
                "repeats_needed": one.repeats_needed,
            }  # fmt: skip


def _sentence(found: Comparison) -> str:
    """Return at how many sizes or points each run is faster or slower than the first one, and by how much."""
    return "; ".join(_against(found))


def _against(found: Comparison) -> Iterator[str]:
    of = "size" if found.kind == "collective" else "point"
    for index, letter in enumerate(found.letters[1:], 1):
        figures = [one for line in found.lines if (one := line.figures[index]) is not None]
        said = bench_sentence.outcomes(figures, of, min(found.repeats[0], found.repeats[index]))
        yield f"{letter} against A: {said or 'no ratio'}"


def _run(name: str, run: StoredRun, repeats: int, variant: str | None) -> str:
    how = "measured once" if repeats == 1 else f"{repeats} repeats"
    first = f" (compared: its first variant, {variant})" if variant else ""
    return f"{name}: run {run.run}, {run.benchmark}, library {run.library or '-'}{first}, {words.where(run)}, {how}"


def _runs(found: Comparison, records: Sequence[Record]) -> Table:
    """Return the table of a page, whose columns have the start and the id of a run."""
    names = found.names if found.by_values else found.letters
    rows = tuple(
        (
            Cell(f"{name} (variant {variant})" if variant else name),
            Cell(words.with_finer(word, finer), OF_WORDS[word]),
            Cell(run.started_at.replace("T", " ").replace("Z", "")),
            *(Cell("-" if one is None else str(one)) for one in (run.run, run.np, run.nodes, repeats)),
            Cell(run.hardware or "-", shade="long"),
        )
        for name, run, repeats, variant, (word, finer) in zip(
            names, found.runs, found.repeats, found.variants, (words.of_bench(one.result) for one in records),
            strict=True,
        )
    )  # fmt: skip
    heads = ("run", "status", "began UTC", "id", "ranks", "nodes", "repeats", "hardware")
    return Table(tuple(map(Head, heads)), rows, style="plain whole")


def cautions(found: Comparison) -> list[str]:
    """Return the reasons to distrust the ratios, one sentence each; empty if the keys agree."""
    lines = []
    for one in found.differences:
        said = ", ".join(
            f"{letter}: {value}" for letter, value in zip(found.letters, one.values, strict=False)
        )
        lines.append(f"{one.field} differs ({said})")
    if found.unkeyed:
        lines.append(f"the measured configuration is not recorded in {', '.join(found.unkeyed)}")
    lines += [f"{run.run} is {run.status}" for run in found.runs if run.status != "ok"]
    return lines


def _charts(found: Comparison, records: Sequence[Record]) -> Iterator[Chart]:
    results = list(zip(found.names, (record.result for record in records), strict=True))
    if found.kind == "collective":
        sweeps = [(name, result.rows) for name, result in results]
        made = [charts.busbw(sweeps, bounds.common_lines(records)), charts.times(sweeps)]
    else:
        made = [charts.scaling([(name, result.points, charts.windows(result)) for name, result in results])]
    yield from (one for one in made if one is not None)


def _figures(found: Comparison, unit: str, title: str) -> Table:
    collective = found.kind == "collective"
    heads = [Head("size"), Head("bytes", early=True, on_terminal=False)] if collective else [Head("ranks")]
    for letter in found.letters:
        if collective:
            heads += [
                Head(f"{letter} time us", f"{letter} time", "\u00b5s"),
                Head(f"{letter} GB/s", f"{letter} busbw", unit),
            ]
        else:
            heads.append(Head(f"{letter} samples/s", letter, unit))
        if letter != "A":
            heads += [Head(f"{letter}/A", early=True), Head("noise", early=True)]
            heads.append(Head("", words=True, early=True))
    rows = []
    for line in found.lines:
        row = [Cell(size(line.at)), Cell(str(line.at))] if collective else [Cell(str(line.at))]
        for index, figure in enumerate(line.figures):
            row += _cells(figure, collective)
            row += _ratio(figure) if index else []
        rows.append(tuple(row))
    return Table(tuple(heads), tuple(rows), style="figures", title=title)


def _cells(figure: Figure | None, collective: bool) -> list[Cell]:
    value = None if figure is None else figure.value
    cell = Cell("-" if value is None else f"{value:.{2 if collective else 1}f}")
    time_us = None if figure is None else figure.time_us
    return [Cell("-" if time_us is None else f"{time_us:.2f}"), cell] if collective else [cell]


def _ratio(figure: Figure | None) -> list[Cell]:
    if figure is None or figure.ratio is None or figure.word is None:
        return [Cell("-"), Cell(""), Cell("")]
    word = Cell(figure.word.value, TONES[figure.word])
    return [Cell(f"{figure.ratio:.3f}"), Cell(noise_share(figure.noise)), word]


def _noise(found: Comparison) -> str:
    """Return sentences on how ratios and noise are computed."""
    windows = " (the timed windows, if a training was measured once)" if found.kind == "training" else ""
    return (
        "Ratios are of speed, relative to A: above 1 is faster. Noise (\u00b1) is what equal runs may differ by: "
        f"at least {FLOOR * 100:.0f} %, and more if the repeats vary{windows}."
    )


def _once(found: Comparison) -> str:
    """Return a sentence on the runs without repeats; empty if there are none."""
    if not found.once:
        return ""
    were = "was measured once" if len(found.once) == 1 else "were measured once"
    return (
        f"{' and '.join(found.once)} {were}, so a difference may be noise. To tell them apart: bench --repeats 5, "
        "or bench --compare, which interleaves the variants."
    )


def _configuration(records: Sequence[Record], letters: Sequence[str]) -> Table:
    """Return the fields that have a value in at least one run, in the order of a key; differences stand out."""
    keys = [record.summary.key or {} for record in records]
    found = {field: [str(key.get(field, ABSENT)) for key in keys] for field in FIELDS}
    found["library versions"] = ["; ".join(record.summary.versions) or ABSENT for record in records]
    found["clusterctl"] = [record.summary.clusterctl_version or ABSENT for record in records]
    rows = tuple(
        (Cell(field), *(Cell(one, Tone.OPEN if len(set(values)) > 1 else Tone.PLAIN) for one in values))
        for field, values in found.items()
        if set(values) != {ABSENT}
    )
    return Table(tuple(map(Head, ("field", *letters))), rows, style="plain", title="Configuration")
