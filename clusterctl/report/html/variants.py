"""Variants that one run measured interleaved: their medians as series of the charts and in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterctl.benchmarks.scaling import percent
from clusterctl.report.html import figures
from clusterctl.report.html.chart import Chart
from clusterctl.report.text import trust as trust_lines
from clusterctl.report.text import variants as variants_table
from clusterctl.report.text.table import noise_share, size

Variant = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first column names the rows; each head is a label and a unit.

    ``sized``: the second column has the exact sizes in bytes, which narrow pages leave out.
    """

    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]
    sized: bool


def charts(variants: Sequence[Variant], bounds: Sequence[tuple[str, float]]) -> list[Chart | None]:
    """Return the charts of the variants' medians, with minimum and maximum of the repeats as bars."""
    sweeps = [(str(one["name"]), _rows(one)) for one in variants]
    found = [figures.busbw(sweeps, bounds), figures.times(sweeps)]
    curves = [(str(one["name"]), _points(one)) for one in variants]
    return [*found, figures.scaling([(name, points, {}) for name, points in curves])]


def rows_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of a run for charts, with the bounds of their repeats if there are any."""
    first = _first(document)
    return _rows(first) if first else list(document.get("rows") or ())


def points_of(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the points of a run for charts, with the bounds of their repeats if there are any."""
    first = _first(document)
    return _points(first) if first else list(document.get("points") or ())


def _first(document: Mapping[str, Any]) -> Variant | None:
    return next(iter(document.get("variants") or ()), None)


def _rows(one: Variant) -> list[Mapping[str, Any]]:
    return [_row(row) for row in one.get("rows") or ()]


def _points(one: Variant) -> list[Mapping[str, Any]]:
    return [_point(point) for point in one.get("points") or ()]


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    time_us, busbw = row["time_us"], row.get("busbw_gbps") or {}
    return {
        "size_bytes": row["size_bytes"],
        "time_us": time_us["median"],
        "busbw_gbps": busbw.get("median"),
        "time_bounds": _bounds(time_us),
        "busbw_bounds": _bounds(busbw) if busbw else None,
    }


def _point(point: Mapping[str, Any]) -> dict[str, Any]:
    speed = point["samples_per_s"]
    return {
        "np": point["np"],
        f"{point['sample']}s_per_s": speed["median"],
        "efficiency": point.get("efficiency"),
        "bounds": _bounds(speed),
    }


def _bounds(spread: Mapping[str, Any]) -> tuple[float, float] | None:
    return None if spread.get("cv") is None else (float(spread["least"]), float(spread["greatest"]))


def repeats(variants: Sequence[Variant]) -> str:
    """Return how often the variants were measured."""
    return variants_table.repeats(int(one["repeats"]) for one in variants)


def table(variants: Sequence[Variant]) -> Table:
    """Return the ratios to the first variant, then the medians with the coefficients of variation of their repeats.

    The ratios come first, where a narrow page shows them.
    """
    training = any(one.get("points") for one in variants)
    key, kind = ("np", "points") if training else ("size_bytes", "rows")
    places = list(dict.fromkeys(int(row[key]) for one in variants for row in one.get(kind) or ()))
    heads: list[tuple[str, str]] = [("ranks", "")] if training else [("size", ""), ("bytes", "")]
    for one in variants[1:]:
        heads += [(str(one["name"]), f"/ {variants[0]['name']}"), ("noise", ""), ("", "")]
    for one in variants:
        name = f"{one['name']} " if len(variants) > 1 else ""
        heads += _training_heads(one, name) if training else _collective_heads(name)
    rows = []
    for place in sorted(places):
        cells = [str(place)] if training else [size(place), str(place)]
        found = [
            next((row for row in one.get(kind) or () if int(row[key]) == place), None) for one in variants
        ]
        for row in found[1:]:
            cells += _ratio(row)
        for row in found:
            cells += _training_cells(row) if training else _collective_cells(row)
        rows.append(tuple(cells))
    return Table(tuple(heads), tuple(rows), not training)


def proven(variants: Sequence[Variant]) -> list[tuple[str, list[str]]]:
    """Return the names of the variants that have proof lines, and these lines."""
    found = [(str(one["name"]), trust_lines.lines(one.get("proof") or {})) for one in variants]
    return [(name, lines) for name, lines in found if lines]


def _collective_heads(name: str) -> list[tuple[str, str]]:
    return [(f"{name}time", "\u00b5s"), ("varies", "%"), (f"{name}busbw", "GB/s")]


def _training_heads(one: Variant, name: str) -> list[tuple[str, str]]:
    points = one.get("points") or ()
    unit = f"{points[0]['sample']}s/s" if points else ""
    return [(name.strip() or "throughput", unit), ("varies", "%"), ("efficiency", "")]


def _varies(spread: Mapping[str, Any]) -> str:
    return "-" if spread.get("cv") is None else f"{spread['cv'] * 100:.1f}"


def _collective_cells(row: Mapping[str, Any] | None) -> list[str]:
    if row is None:
        return ["-"] * 3
    busbw = row.get("busbw_gbps")
    speed = "-" if busbw is None else f"{busbw['median']:.2f}"
    return [f"{row['time_us']['median']:.2f}", _varies(row["time_us"]), speed]


def _training_cells(row: Mapping[str, Any] | None) -> list[str]:
    if row is None:
        return ["-"] * 3
    speed = row["samples_per_s"]
    return [f"{speed['median']:.1f}", _varies(speed), percent(row.get("efficiency"))]


def _ratio(row: Mapping[str, Any] | None) -> list[str]:
    if row is None or row.get("ratio") is None:
        return ["-", "", ""]
    return [f"{row['ratio']:.3f}", noise_share(row.get("noise")), str(row.get("word") or "")]
