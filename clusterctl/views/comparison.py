"""The view of ``runs compare``: the runs, how their setups differ, and each figure relative to the first run's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterctl.benchmarks.key import ABSENT, FIELDS
from clusterctl.documents.measured_runs import StoredRun
from clusterctl.report.figures import Chart
from clusterctl.report.line import Tone
from clusterctl.report.text.table import noise_share, size
from clusterctl.report.view import TONES, Block, Cell, Head, Table, View
from clusterctl.results import words
from clusterctl.results.comparison import Comparison, Figure
from clusterctl.results.noise import FLOOR
from clusterctl.results.record import Record
from clusterctl.views import bench_sentence, bounds, charts, heat_map
from clusterctl.views.tones import OF_WORDS


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
    )


def _sentence(found: Comparison) -> str:
    """Return at how many sizes or points each run is faster or slower than the first one, and by how much."""
    of = "size" if found.kind == "collective" else "point"
    parts = []
    for index, letter in enumerate(found.letters[1:], 1):
        figures = [one for line in found.lines if (one := line.figures[index]) is not None]
        said = bench_sentence.outcomes(figures, of, min(found.repeats[0], found.repeats[index]))
        parts.append(f"{letter} against A: {said or 'no ratio'}")
    return "; ".join(parts)


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
