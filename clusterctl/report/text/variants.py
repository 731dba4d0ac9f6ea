"""Compared variants as a plain-text table: medians, their spread, and the ratio to the first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clusterctl.benchmarks.scaling import percent
from clusterctl.documents.bench import BenchResult, Spread, VariantPoint, VariantResult, VariantRow
from clusterctl.report.text import trust as trust_lines
from clusterctl.report.text.table import columns, halves_above, loss, noise_share, size


def render(result: BenchResult) -> str:
    """Return the table, one row per size or number of ranks; a missing figure is printed as ``-``."""
    variants = result.variants
    lines = [_title(result), _figures(variants)]
    if any(variant.points for variant in variants):
        lines.append(_training(variants))
    elif any(variant.rows for variant in variants):
        lines.append(_collective(variants) if len(variants) > 1 else _repeated(variants[0].rows))
    if len(variants) == 1 and result.avg_busbw_gbps is not None:
        lines.append(f"Avg bus bandwidth: {result.avg_busbw_gbps:g} GB/s")
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
    if len(variants) == 1:
        return said
    both = any(row.in_place for variant in variants for row in variant.rows)
    return f"{'out-of-place, ' if both else ''}{said}; ratio: speed relative to {variants[0].name}"


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


_RATIO = ["ratio", "noise", ""]


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return columns(headers, rows, left=[index for index, head in enumerate(headers) if not head])


def _repeated(found: Sequence[VariantRow]) -> str:
    """Return the rows of one configuration, with in-place columns if the program measures both halves."""
    both = any(row.in_place for row in found)
    rows = []
    for row in found:
        cells = [size(row.size_bytes)]
        for half in (row, row.in_place) if both else (row,):
            cells += [_figure(half.time_us, 1) if half else "-"]
            cells += [f"{half.busbw_gbps.median:.2f}" if half and half.busbw_gbps else "-"]
        rows.append([*cells, "-" if row.wrong is None else str(row.wrong)])
    table = columns(["size", *((2 if both else 1) * ["time us", "busbw GB/s"]), "wrong"], rows)
    return halves_above(table, "out-of-place", "in-place") if both else table


def _collective(variants: tuple[VariantResult, ...]) -> str:
    headers = ["size"]
    for index in range(len(variants)):
        headers += [f"{variants[index].name} us", "busbw GB/s", *(_RATIO if index else [])]
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
    """Return a row for each variant at each number of ranks, with both efficiencies and the losses."""
    points = [point for variant in variants for point in variant.points]
    between = any(point.efficiency_between_nodes is not None for point in points)
    losses = any(point.loss is not None for point in points)
    several = len(variants) > 1
    headers = [
        "ranks", "nodes", *(["variant"] if several else []), f"{points[0].sample}s/s", "efficiency",
        *(["between nodes"] if between else []), *(["first loss", "last loss"] if losses else []),
        *(_RATIO if several else []),
    ]  # fmt: skip
    rows = []
    for place in sorted({(point.np, point.nodes) for point in points}):
        for variant in variants:
            point = next((one for one in variant.points if (one.np, one.nodes) == place), None)
            first = variant is variants[0]
            rows.append(
                [
                    *map(str, place),
                    *([variant.name] if several else []),
                    _figure(point.samples_per_s, 1) if point else "-",
                    percent(point.efficiency) if point else "-",
                    *([percent(point.efficiency_between_nodes) if point else "-"] if between else []),
                    *([loss(point.loss_first), loss(point.loss)] if losses and point else []),
                    *(["-", "-"] if losses and not point else []),
                    *((["", "", ""] if first else _ratio(point)) if several else []),
                ]
            )
    left = [index for index, head in enumerate(headers) if head in ("", "variant")]
    return columns(headers, rows, left=left)
