"""The charts of benchmarks: bus bandwidth and time against message size, throughput against ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.benchmarks.scaling import percent
from clusterctl.documents.bench import BenchResult, VariantPoint, VariantRow
from clusterctl.report.figures import Axis, Chart, ChartSeries, Mark, Reference
from clusterctl.report.scale import (
    Tick,
    bandwidth,
    duration,
    linear_ticks,
    log_bounds,
    log_ticks,
    size_ticks,
)
from clusterctl.report.text.table import size

Rows = Sequence[VariantRow]
Points = Sequence[VariantPoint]
_HEADROOM = 1.04
REPEATS = "bars: smallest to largest repeat"
WINDOWS = "bars: \u00b11.96\u03c3 of the timed windows"


def _height(title: str, values: Sequence[float]) -> Axis:
    high = linear_ticks(max([*values, 1e-9]) * _HEADROOM, 6)[-1].value

    def ticks(count: int) -> list[Tick]:
        return [tick for tick in linear_ticks(high, count) if tick.value <= high * (1 + 1e-9)]

    return Axis(title, 0.0, high, ticks)


def _log_height(title: str, values: Sequence[float]) -> Axis:
    low, high = log_bounds(min(values), max(values))
    return Axis(title, low, high, lambda _count: log_ticks(low, high, bandwidth), log=True)


def _sizes(runs: Sequence[tuple[str, Rows]]) -> Axis:
    sizes = [max(row.size_bytes, 1) for _, rows in runs for row in rows]
    low, high = float(min(sizes)), float(max(sizes))
    low, high = (low / 2, high * 2) if low == high else (low, high)
    return Axis("message size", low, high, lambda count: size_ticks(low, high, count), log=True)


def busbw(runs: Sequence[tuple[str, Rows]], bounds: Sequence[tuple[str, float]] = ()) -> Chart | None:
    """Return bus bandwidth against message size, one series per run, bounds in GB/s dashed; None without figures."""
    series = [
        ChartSeries(
            name,
            tuple(
                Mark(
                    row.size_bytes,
                    row.busbw_gbps.median,
                    f"{size(row.size_bytes)}: {row.busbw_gbps.median:.2f} GB/s",
                    row.busbw_gbps.bounds,
                )
                for row in rows
                if row.busbw_gbps is not None
            ),
        )
        for name, rows in runs
    ]
    values = [mark.y for one in series for mark in one.marks]
    if not values:
        return None
    tops = [_top(mark) for one in series for mark in one.marks]
    x = _sizes(runs)
    references = tuple(Reference(name, ((x.low, value), (x.high, value))) for name, value in bounds)
    return Chart(
        "busbw",
        "Bus bandwidth against message size",
        f"Line chart, message size from {size(int(x.low))} to {size(int(x.high))} on a logarithmic axis; "
        f"the highest bus bandwidth is {max(values):.2f} GB/s. The table below has the same figures.",
        x,
        _height("bus bandwidth, GB/s", [*tops, *(value for _, value in bounds)]),
        tuple(series),
        references,
        REPEATS,
        _busbw_closeup(runs, references),
    )


def _busbw_closeup(runs: Sequence[tuple[str, Rows]], references: tuple[Reference, ...]) -> Chart | None:
    """Return bus bandwidth on a logarithmic axis, where small messages are visible; None without times.

    Programs print bandwidths with two decimals, so those of small messages are computed from their times.
    """
    series = [ChartSeries(name, tuple(_exact(rows))) for name, rows in runs]
    values = [edge for one in series for mark in one.marks for edge in (mark.y, *(mark.bounds or ()))]
    if not values:
        return None
    return Chart(
        "busbw-log",
        "Bus bandwidth against message size, logarithmic",
        f"Line chart with two logarithmic axes, from {bandwidth(min(values))} to {bandwidth(max(values))}. "
        "The table below has the same figures.",
        _sizes(runs),
        _log_height("bus bandwidth", [*values, *(at for one in references for _, at in one.points)]),
        tuple(series),
        references,
        REPEATS,
    )


def _exact(rows: Rows) -> list[Mark]:
    timed = [
        (row.size_bytes, row.time_us, row.busbw_gbps.median)
        for row in rows
        if row.busbw_gbps is not None and row.time_us.median and row.size_bytes
    ]
    best = max(timed, key=lambda one: one[2], default=None)
    if best is None or not best[2]:
        return []
    # Bus bandwidth is a constant of the collective and of the ranks, times size, divided by time.
    factor = best[2] * best[1].median / best[0]
    marks = []
    for size_bytes, time_us, _ in timed:
        work = factor * size_bytes
        value, times_of = work / time_us.median, time_us.bounds
        bounds = (work / times_of[1], work / times_of[0]) if times_of and times_of[0] > 0 else None
        marks.append(Mark(size_bytes, value, f"{size(size_bytes)}: {bandwidth(value)}", bounds))
    return marks


def times(runs: Sequence[tuple[str, Rows]]) -> Chart | None:
    """Return time per operation against message size, both logarithmic; None if no time was measured."""
    series = [
        ChartSeries(
            name,
            tuple(
                Mark(
                    row.size_bytes,
                    row.time_us.median,
                    f"{size(row.size_bytes)}: {duration(row.time_us.median)}",
                    row.time_us.bounds,
                )
                for row in rows
                if row.time_us.median
            ),
        )
        for name, rows in runs
    ]
    values = [mark.y for one in series for mark in one.marks]
    if not values:
        return None
    low = min(mark.bounds[0] if mark.bounds else mark.y for one in series for mark in one.marks)
    low, high = log_bounds(low, max(_top(mark) for one in series for mark in one.marks))
    return Chart(
        "time",
        "Time per operation against message size",
        f"Line chart with two logarithmic axes; the shortest time is {duration(min(values))}, the longest "
        f"{duration(max(values))}. The table below has the same figures.",
        _sizes(runs),
        Axis("time per operation", low, high, lambda _count: log_ticks(low, high, duration), log=True),
        tuple(series),
        whiskers=REPEATS,
    )


def scaling(runs: Sequence[tuple[str, Points, Mapping[str, float]]]) -> Chart | None:
    """Return throughput against ranks; each run is its name, its points, and 1.96 sigma per rank by ranks.

    The dashed line is linear scaling from the smallest point of the first run.
    """
    series = []
    unit = "images/s"
    for name, points, spread in runs:
        marks = []
        for point in sorted(points, key=lambda one: one.np):
            value, unit, np = point.samples_per_s.median, point.unit, point.np
            # The ranks work in step, so their deviations add up.
            off = spread.get(str(np), 0.0) * np
            label = (
                percent(point.efficiency)
                if point.efficiency is not None and np > 1 and len(runs) == 1
                else ""
            )
            says = f"{np} ranks: {value:.1f} {unit}" + (f" +-{off:.1f}" if off else "")
            bounds = (value - off, value + off) if off else point.samples_per_s.bounds
            marks.append(Mark(np, value, says, bounds, label))
        series.append(ChartSeries(name, tuple(marks)))
    marks_of_all = [mark for one in series for mark in one.marks]
    if not marks_of_all:
        return None
    ranks = sorted({int(mark.x) for mark in marks_of_all})
    first = next(one.marks[0] for one in series if one.marks)
    linear = first.y / first.x
    high = max(ranks)
    return Chart(
        "scaling",
        "Throughput against ranks",
        f"Line chart of {unit} against the number of ranks, {', '.join(map(str, ranks))}; the dashed line grows "
        f"linearly from {int(first.x)}. The table below has the same figures.",
        Axis("ranks", 0.0, float(high), lambda _count: [Tick(0, "0"), *(Tick(n, str(n)) for n in ranks)]),
        _height(unit, [*(_top(mark) for mark in marks_of_all), linear * high]),
        tuple(series),
        (Reference(_linear_name(int(first.x)), ((0.0, 0.0), (float(high), linear * high))),),
        _whiskers(runs),
    )


def _whiskers(runs: Sequence[tuple[str, Points, Mapping[str, float]]]) -> str:
    repeated = any(point.samples_per_s.bounds for _, points, _ in runs for point in points)
    windows = any(spread for _, _, spread in runs)
    if repeated and windows:
        return f"{REPEATS}, or \u00b11.96\u03c3 of the timed windows of a run without repeats"
    return REPEATS if repeated else WINDOWS


def _top(mark: Mark) -> float:
    return max(mark.y, mark.bounds[1]) if mark.bounds else mark.y


def _linear_name(ranks: int) -> str:
    return f"linear, from {ranks} rank{'s' if ranks > 1 else ''}"


def of_run(result: BenchResult, bounds: Sequence[tuple[str, float]]) -> list[Chart]:
    """Return the charts of a run's medians, with minimum and maximum of the repeats as bars."""
    sweeps = [(one.name, one.rows) for one in result.variants]
    curves = [(one.name, one.points, windows(result)) for one in result.variants]
    found = busbw(sweeps, bounds), times(sweeps), scaling(curves)
    return [one for one in found if one is not None]


def windows(result: BenchResult) -> Mapping[str, float]:
    """Return the spread of the timed windows of a training that was measured once; else that of repeats counts."""
    once = len(result.variants) == 1 and result.repeats == 1
    return (result.proof.spread or {}) if once else {}
