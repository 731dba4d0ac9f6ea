"""The figures of a run of ``bench`` as one table, for terminals and for pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from clusterctl.benchmarks.key import GRAPH_IF_FASTER
from clusterctl.benchmarks.scaling import percent
from clusterctl.documents.bench import (
    BenchResult,
    Spread,
    VariantHalf,
    VariantPoint,
    VariantResult,
    VariantRow,
)
from clusterctl.documents.kinds import ComparisonWord
from clusterctl.report.line import Tone
from clusterctl.report.text.table import loss, noise_share, size
from clusterctl.report.view import TONES, Cell, Head, Table
from clusterctl.results import noise

_NONE = Cell("-")


def table(result: BenchResult) -> Table | None:
    """Return the medians of all variants, with the ratios to the first one; None without figures."""
    if any(variant.points for variant in result.variants):
        return _training(result)
    if any(variant.walls for variant in result.variants):
        return _walls(result)
    if not any(variant.rows for variant in result.variants):
        return None
    return _compared(result.variants) if len(result.variants) > 1 else _collective(result.variants[0])


def repeats(counts: Iterable[int]) -> str:
    """Return how often variants were measured: ``3 repeats``; ``3 and 2 repeats`` if a fault ended the run."""
    found = sorted(set(counts), reverse=True)
    return " and ".join(map(str, found)) + (" repeat" if found == [1] else " repeats")


def what_decides(variants: Sequence[VariantResult]) -> str:
    """Return a sentence on what would decide the undecided ratios; empty if there are none."""
    figures: list[VariantRow | VariantPoint] = [one for variant in variants for one in variant.rows]
    figures += [one for variant in variants for one in variant.points]
    return noise.what_decides(one.repeats_needed for one in figures if one.word is ComparisonWord.UNDECIDED)


def started(variants: Sequence[VariantResult]) -> str:
    """Return how the calls of the rows were started, if CUDA graphs were asked for; empty if not."""
    sizes = [row.size_bytes for one in variants for row in one.rows if row.calls_us is not None]
    several = len(variants) > 1
    if sizes:
        how = "CUDA graphs" if several else "CUDA graphs where these are faster than"
        calls = "; calls from Python have a column of their own" if several else " calls from Python"
        return f"Times up to {size(max(sizes))} are those of {how}{calls}."
    if several and any(one.key.get("cuda_graph") == GRAPH_IF_FASTER for one in variants):
        return "All calls were started from Python: a CUDA graph cannot capture those of every variant here."
    return ""


def _figure(value: Spread, digits: int, on_terminal: int) -> Cell:
    """Return a median with so many digits after the point; a terminal has room for fewer, and shows the bounds."""
    bounds = f" ({value.least:.{on_terminal}f}-{value.greatest:.{on_terminal}f})" if value.bounds else ""
    return Cell(f"{value.median:.{digits}f}", terminal=f"{value.median:.{on_terminal}f}{bounds}")


def _median(value: Spread | None) -> Cell:
    return _NONE if value is None else Cell(f"{value.median:.2f}")


def _calls(rows: Iterable[VariantRow], name: str) -> tuple[Head, ...]:
    """Return the column of calls from Python; none if no row timed them beside CUDA graphs."""
    head = Head(f"{name} calls us".lstrip(), f"{name} calls from Python".lstrip(), "\u00b5s")
    return (head,) if any(row.calls_us is not None for row in rows) else ()


def _varies(value: Spread) -> Cell:
    return _NONE if value.cv is None else Cell(f"{value.cv * 100:.1f}")


def _ratio(row: VariantRow | VariantPoint | None) -> Iterator[Cell]:
    if row is None or row.ratio is None:
        yield from (_NONE, Cell(""), Cell(""))
        return
    yield Cell(f"{row.ratio:.3f}")
    yield Cell(noise_share(row.noise))
    yield Cell(row.word.value, TONES[row.word]) if row.word else Cell("")


def _per_rank(point: VariantPoint, spread: float | None) -> tuple[Cell, Cell]:
    """Return the rate of one rank and the spread of its timed windows, which may not be recorded."""
    rate = f"{point.samples_per_s_per_rank:.1f}"
    if spread is None:
        return Cell(rate), _NONE
    return Cell(rate, terminal=f"{rate} +-{spread:.1f}"), Cell(f"{spread:.1f}")


# A narrow page leaves out the second column of a table with sizes.
_SIZE = (Head("size"), Head("bytes", early=True, on_terminal=False))
_VARIES = Head("varies", unit="%", on_terminal=False)


def _ratio_heads(text: str, page: str, first: str) -> tuple[Head, ...]:
    return (
        Head(text, page, f"/ {first}", early=True), Head("noise", early=True), Head("", words=True, early=True)
    )  # fmt: skip


def _collective(variant: VariantResult) -> Table:
    """Return the sweep of one configuration, with in-place columns if the program measures both halves."""
    both = any(row.in_place for row in variant.rows)
    once = variant.repeats == 1
    calls = _calls(variant.rows, "")
    unit = "" if both else " GB/s"

    def heads(prefix: str) -> tuple[Head, ...]:
        time = Head("time us", f"{prefix}time", "\u00b5s")
        algbw, busbw = (Head(f"{name}{unit}", f"{prefix}{name}", "GB/s") for name in ("algbw", "busbw"))
        return (time, algbw, busbw) if once else (time, _VARIES, busbw)

    def cells(half: VariantRow | VariantHalf | None) -> tuple[Cell, ...]:
        if half is None:
            return (_NONE,) * 3
        middle = _median(half.algbw_gbps) if once else _varies(half.time_us)
        return _figure(half.time_us, 2, 2 if once else 1), middle, _median(half.busbw_gbps)

    rows = tuple(
        (
            Cell(size(row.size_bytes)), Cell(str(row.size_bytes)), *cells(row), *(cells(row.in_place) if both else ()),
            *((_median(row.calls_us),) if calls else ()),
            _NONE if row.wrong is None else Cell(str(row.wrong), Tone.BAD if row.wrong else Tone.PLAIN),
        )
        for row in variant.rows
    )  # fmt: skip
    found = (*_SIZE, *heads(""), *(heads("in-place ") if both else ()), *calls, Head("wrong"))
    groups = ("out-of-place, GB/s", "in-place, GB/s") if both else None
    return Table(found, rows, groups, title="Every message size", note="" if once else _medians((variant,)))


def _compared(variants: Sequence[VariantResult]) -> Table:
    """Return a line for each size, with the time and the bus bandwidth of each variant."""
    first = variants[0]
    heads = list(_SIZE)
    for variant in variants:
        name = variant.name
        heads += [
            Head(f"{name} us", f"{name} time", "\u00b5s"), _VARIES, Head("busbw GB/s", f"{name} busbw", "GB/s")
        ]  # fmt: skip
        heads += _calls(variant.rows, name)
        heads += [] if variant is first else _ratio_heads("ratio", name, first.name)
    rows = []
    for size_bytes in sorted({row.size_bytes for variant in variants for row in variant.rows}):
        cells = [Cell(size(size_bytes)), Cell(str(size_bytes))]
        for variant in variants:
            row = next((row for row in variant.rows if row.size_bytes == size_bytes), None)
            cells += (
                [_figure(row.time_us, 2, 1), _varies(row.time_us), _median(row.busbw_gbps)]
                if row
                else [_NONE] * 3
            )
            cells += [_median(row.calls_us if row else None)] * len(_calls(variant.rows, variant.name))
            cells += [] if variant is first else _ratio(row)
        rows.append(tuple(cells))
    return Table(tuple(heads), tuple(rows), title="Variants side by side", note=_interleaved(variants))


def _medians(variants: Sequence[VariantResult]) -> str:
    said = f"Medians of {repeats(one.repeats for one in variants)}"
    return f"{said}. varies is the coefficient of variation of the repeats."


def _interleaved(variants: Sequence[VariantResult]) -> str:
    return (
        f"{_medians(variants)} The variants were measured interleaved. A ratio above 1 is faster than the first "
        "variant; noise is what equal variants may differ by."
    )


def _walls(result: BenchResult) -> Table:
    """Return a line for each variant of a program without a rate at each number of ranks, with its wall time."""
    several = len(result.variants) > 1
    once = all(one.repeats == 1 for one in result.variants)
    heads = (
        Head("ranks"), Head("nodes"), *((Head("variant", words=True, early=True),) if several else ()),
        Head("wall time s", "wall time", "s"), *(() if once else (_VARIES,)),
    )  # fmt: skip
    rows = tuple(
        (
            Cell(str(wall.np)), Cell(str(wall.nodes)), *((Cell(one.name),) if several else ()),
            _figure(wall.seconds, 2, 2), *(() if once else (_varies(wall.seconds),)),
        )
        for one in result.variants
        for wall in one.walls or ()
    )  # fmt: skip
    return Table(heads, rows, title="Wall times", note="" if once else _medians(result.variants))


def _training(result: BenchResult) -> Table:
    """Return a line for each variant at each number of ranks, with both efficiencies and the losses.

    The rate of one rank has the spread of its timed windows, which only a run with one repeat has.
    """
    variants, spread = result.variants, result.proof.spread or {}
    points = [point for variant in variants for point in variant.points]
    between = any(point.efficiency_between_nodes is not None for point in points)
    losses = any(point.loss is not None for point in points)
    several = len(variants) > 1
    once = not several and result.repeats == 1
    unit = points[0].unit
    once_heads = (Head(f"{unit} per rank", "per rank", unit), Head("\u00b11.96\u03c3", on_terminal=False))
    heads = [
        Head("ranks"), Head("nodes"), *([Head("variant", words=True, early=True)] if several else []),
        Head(unit, "throughput", unit), *(once_heads if once else (_VARIES,)),
        Head("efficiency"), *([Head("between nodes")] if between else []),
        *([Head("first loss"), Head("last loss")] if losses else []),
        *(_ratio_heads("ratio", "speed", variants[0].name) if several else ()),
    ]  # fmt: skip
    rows = []
    for np, nodes in sorted({(point.np, point.nodes) for point in points}):
        for variant in variants:
            point = next((one for one in variant.points if (one.np, one.nodes) == (np, nodes)), None)
            cells = [Cell(str(np)), Cell(str(nodes)), *([Cell(variant.name)] if several else [])]
            if point is None:
                cells += [_NONE] * (3 + once + between + 2 * losses)
            else:
                cells += [
                    _figure(point.samples_per_s, 1, 1),
                    *(_per_rank(point, spread.get(str(point.np))) if once else (_varies(point.samples_per_s),)),
                    Cell(percent(point.efficiency)),
                    *([Cell(percent(point.efficiency_between_nodes))] if between else []),
                    *([Cell(loss(point.loss_first)), Cell(loss(point.loss))] if losses else []),
                ]  # fmt: skip
            if several:
                cells += [Cell(""), Cell(""), Cell("")] if variant is variants[0] else _ratio(point)
            rows.append(tuple(cells))
    if several:
        return Table(tuple(heads), tuple(rows), title="Variants side by side", note=_interleaved(variants))
    note = "" if once else _medians(variants)
    return Table(tuple(heads), tuple(rows), title="Every point of the curve", note=note)
