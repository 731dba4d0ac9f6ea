"""Compared variants as a plain-text table: medians, their spread, and the ratio to the first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clusterctl.benchmarks.scaling import percent
from clusterctl.documents.bench import BenchResult, Spread, VariantPoint, VariantResult, VariantRow
from clusterctl.report.text import trust as trust_lines
from clusterctl.report.text.table import columns, noise_share, size


def render(result: BenchResult) -> str:
    """Return the table, one row per size or number of ranks; a missing figure is printed as ``-``."""
    variants = result.variants
    lines = [_title(result), _figures(variants)]
    if any(variant.points for variant in variants):
        lines.append(_training(variants))
    elif any(variant.rows for variant in variants):
        lines.append(_collective(variants))
    if len(variants) == 1:
        lines += trust_lines.lines(result.proof)
    else:
        lines += [f"{one.name}: {line}" for one in variants for line in trust_lines.lines(one.proof)]
    return "\n".join(lines)


def repeats(counts: Iterable[int]) -> str:
    """Return how often variants were measured: ``3 repeats``; ``3 and 2 repeats`` if a fault ended the run."""
    found = sorted(set(counts), reverse=True)
    return " and ".join(map(str, found)) + (" repeat" if found == [1] else " repeats")


def _figures(variants: Sequence[VariantResult]) -> str:
    """Return what the figures of the table are."""
    counts = {variant.repeats for variant in variants}
    said = "one repeat" if counts == {1} else f"median (minimum-maximum) of {repeats(counts)}"
    return said if len(variants) == 1 else f"{said}; ratio: speed relative to {variants[0].name}"


def _title(result: BenchResult) -> str:
    variants = result.variants
    launcher = f"launcher {result.launcher or '-'}"
    if len(variants) == 1:
        return f"{result.benchmark}, library {result.library or '-'}, {launcher}"
    return f"{result.benchmark}, {launcher}, {len(variants)} variants interleaved"


def _figure(value: Spread, digits: int) -> str:
    bounds = f" ({value.least:.{digits}f}-{value.greatest:.{digits}f})"
    return f"{value.median:.{digits}f}{bounds if value.cv is not None else ''}"


def _ratio(row: VariantRow | VariantPoint | None) -> list[str]:
    if row is None or row.ratio is None:
        return ["-", "", ""]
    return [f"{row.ratio:.3f}", noise_share(row.noise), row.word.value if row.word else ""]


def _head(variants: Sequence[VariantResult], index: int, alone: str, unit: str) -> str:
    """Return the heading of a variant's figures; a run with repeats alone has no variant to name."""
    return alone if len(variants) == 1 else f"{variants[index].name} {unit}"


_RATIO = ["ratio", "noise", ""]


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return columns(headers, rows, left=[index for index, head in enumerate(headers) if not head])


def _collective(variants: tuple[VariantResult, ...]) -> str:
    headers = ["size"]
    for index in range(len(variants)):
        headers += [_head(variants, index, "time us", "us"), "busbw GB/s", *(_RATIO if index else [])]
    rows = []
    for size_bytes in [row.size_bytes for row in variants[0].rows]:
        cells = [size(size_bytes)]
        for index, variant in enumerate(variants):
            row = next((row for row in variant.rows if row.size_bytes == size_bytes), None)
            busbw = row.busbw_gbps if row else None
            cells += [
                _figure(row.time_us, 1) if row else "-",
                f"{busbw.median:.2f}" if busbw else "-",
                *(_ratio(row) if index else []),
            ]
        rows.append(cells)
    return _table(headers, rows)


def _training(variants: tuple[VariantResult, ...]) -> str:
    counted = variants[0].points[0].sample if variants[0].points else "sample"
    headers = ["ranks", "nodes"]
    for index in range(len(variants)):
        headers += [
            _head(variants, index, f"{counted}s/s", f"{counted}s/s"),
            "efficiency",
            *(_RATIO if index else []),
        ]
    rows = []
    for first in variants[0].points:
        cells = [str(first.np), str(first.nodes)]
        for index, variant in enumerate(variants):
            point = next((point for point in variant.points if point.np == first.np), None)
            cells += [
                _figure(point.samples_per_s, 1) if point else "-",
                percent(point.efficiency) if point else "-",
                *(_ratio(point) if index else []),
            ]
        rows.append(cells)
    return _table(headers, rows)
