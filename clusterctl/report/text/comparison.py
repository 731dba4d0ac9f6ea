"""Compared runs as text for people and as a ``clusterctl.comparison/1`` document."""

from __future__ import annotations

from typing import Any

from clusterctl.documents.results import (
    ComparedBandwidth,
    ComparedLine,
    ComparedRun,
    ComparedThroughput,
    ComparisonDocument,
    Difference,
)
from clusterctl.report.text.table import columns, noise_share, size
from clusterctl.report.text.wrapping import wrapped
from clusterctl.results.comparison import Comparison, Figure
from clusterctl.results.noise import FLOOR
from clusterctl.results.record import Summary


def to_document(found: Comparison) -> dict[str, Any]:
    """Return a comparison as a document; ``comparable`` is false if keys differ or are unknown."""
    collective = found.kind == "collective"
    return ComparisonDocument(
        comparable=found.alike,
        runs=tuple(
            ComparedRun(run=run.run, name=name, repeats=repeats)
            for run, name, repeats in zip(found.runs, found.names, found.repeats, strict=True)
        ),
        differences=tuple(Difference(field=one.field, values=one.values) for one in found.differences),
        without_key=found.unkeyed,
        lines=tuple(
            ComparedLine(
                size_bytes=line.at if collective else None,
                np=None if collective else line.at,
                figures=tuple(None if one is None else _figure(one, collective) for one in line.figures),
            )
            for line in found.lines
        ),
    ).document()


def _figure(figure: Figure, collective: bool) -> ComparedBandwidth | ComparedThroughput:
    ratio = None if figure.ratio is None else round(figure.ratio, 4)
    noise = None if figure.noise is None else round(figure.noise, 4)
    word = figure.word
    if collective:
        return ComparedBandwidth(
            busbw_gbps=figure.value, time_us=figure.time_us, ratio=ratio, noise=noise, word=word
        )
    return ComparedThroughput(
        samples_per_s=figure.value, time_us=figure.time_us, ratio=ratio, noise=noise, word=word
    )


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


def noise_words(found: Comparison) -> str:
    """Return sentences on how ratios and noise are computed."""
    of = "of throughput" if found.kind == "training" else "of times"
    windows = " (the timed windows, if a training was measured once)" if found.kind == "training" else ""
    return (
        f"Ratios are {of}, relative to A. Noise (\u00b1) is what equal runs may differ by: at least "
        f"{FLOOR * 100:.0f} %, and more if the repeats vary{windows}."
    )


def once_words(found: Comparison) -> str:
    """Return a sentence on the runs without repeats; empty if there are none."""
    if not found.once:
        return ""
    were = "was measured once" if len(found.once) == 1 else "were measured once"
    return (
        f"{' and '.join(found.once)} {were}, so a difference may be noise. To tell them apart: bench --repeats 5, "
        "or bench --compare, which interleaves the variants."
    )


def _run(name: str, run: Summary, repeats: int, variant: str | None) -> str:
    how = "measured once" if repeats == 1 else f"{repeats} repeats"
    first = f" (compared: its first variant, {variant})" if variant else ""
    return f"{name}: run {run.run}, {run.benchmark}, library {run.library or '-'}{first}, {run.where}, {how}"


def render(found: Comparison, width: int | None = None) -> str:
    """Return a comparison as text: the runs, their differences, and a line per size or number of ranks.

    ``width`` wraps sentences, but not the table; None: never.
    """
    lines = [_run(*one) for one in zip(found.names, found.runs, found.repeats, found.variants, strict=True)]
    lines += [f"CAUTION: {caution}" for caution in cautions(found)]
    heads = ["size" if found.kind == "collective" else "ranks"]
    for index, letter in enumerate(found.letters):
        heads += (
            [f"{letter} time us", f"{letter} GB/s"] if found.kind == "collective" else [f"{letter} samples/s"]
        )
        heads += [f"{letter}/A", "noise", ""] if index else []
    rows = []
    for line in found.lines:
        row = [size(line.at) if found.kind == "collective" else str(line.at)]
        for index, figure in enumerate(line.figures):
            row += _cells(figure, found.kind == "collective")
            row += _ratio(figure) if index else []
        rows.append(row)
    words = [index for index, head in enumerate(heads) if not head]
    ends = [noise_words(found), once_words(found)]
    above, below = (
        [part for text in texts if text for part in wrapped(text, width)] for texts in (lines, ends)
    )
    return "\n".join([*above, columns(heads, rows, left=words), *below])


def _cells(figure: Figure | None, collective: bool) -> list[str]:
    if figure is None:
        return ["-", "-"] if collective else ["-"]
    value = "-" if figure.value is None else f"{figure.value:.{2 if collective else 1}f}"
    return [("-" if figure.time_us is None else f"{figure.time_us:.2f}"), value] if collective else [value]


def _ratio(figure: Figure | None) -> list[str]:
    if figure is None or figure.ratio is None or figure.word is None:
        return ["-", "", ""]
    return [f"{figure.ratio:.3f}", noise_share(figure.noise), figure.word.value]
