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
from clusterctl.report.text.table import loss, noise_share, size
from clusterctl.results.record import proof_of

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

    The ratios come first, where a narrow page shows them. A training has a row for each variant and number of ranks.
    """
    if any(one.get("points") for one in variants):
        return _training(variants)
    places = list(dict.fromkeys(int(row["size_bytes"]) for one in variants for row in one.get("rows") or ()))
    heads: list[tuple[str, str]] = [("size", ""), ("bytes", "")]
    for one in variants[1:]:
        heads += [(str(one["name"]), f"/ {variants[0]['name']}"), ("noise", ""), ("", "")]
    for one in variants:
        heads += _collective_heads(f"{one['name']} " if len(variants) > 1 else "")
    both = len(variants) == 1 and any(row.get("in_place") for row in variants[0].get("rows") or ())
    heads += _collective_heads("in-place ") if both else []
    rows = []
    for place in sorted(places):
        cells = [size(place), str(place)]
        found = [
            next((row for row in one.get("rows") or () if int(row["size_bytes"]) == place), None)
            for one in variants
        ]
        for row in found[1:]:
            cells += _ratio(row)
        for row in found:
            cells += _collective_cells(row)
        cells += _collective_cells((found[0] or {}).get("in_place")) if both else []
        rows.append(tuple(cells))
    return Table(tuple(heads), tuple(rows), sized=True)


def _training(variants: Sequence[Variant]) -> Table:
    points = [(one, point) for one in variants for point in one.get("points") or ()]
    several = len(variants) > 1
    between = any(point.get("efficiency_between_nodes") is not None for _, point in points)
    losses = any(point.get("loss") is not None for _, point in points)
    repeated = any(point["samples_per_s"].get("cv") is not None for _, point in points)
    # What a narrow page shows comes first.
    heads = [
        ("variant" if several else "ranks", ""), *([("ranks", "")] if several else []), ("nodes", ""),
        *([("speed", f"/ {variants[0]['name']}"), ("noise", ""), ("", "")] if several else []),
        ("throughput", f"{points[0][1]['sample']}s/s"), *([("varies", "%")] if repeated else []),
        *([("last loss", "")] if losses else []), ("efficiency", ""),
        *([("between nodes", "")] if between else []), *([("first loss", "")] if losses else []),
    ]  # fmt: skip
    rows = [
        (
            *([str(one["name"])] if several else []), str(point["np"]), str(point["nodes"]),
            *((["", "", ""] if one is variants[0] else _ratio(point)) if several else []),
            f"{point['samples_per_s']['median']:.1f}", *([_varies(point["samples_per_s"])] if repeated else []),
            *([loss(point.get("loss"))] if losses else []), percent(point.get("efficiency")),
            *([percent(point.get("efficiency_between_nodes"))] if between else []),
            *([loss(point.get("loss_first"))] if losses else []),
        )
        for one, point in sorted(points, key=lambda pair: int(pair[1]["np"]))
    ]  # fmt: skip
    return Table(tuple(heads), tuple(rows), sized=False)


def proven(variants: Sequence[Variant]) -> list[tuple[str, list[str]]]:
    """Return the names of the variants that have proof lines, and these lines."""
    proofs = ((str(one["name"]), proof_of(one)) for one in variants)
    found = [(name, trust_lines.lines(proof) + trust_lines.algorithms(proof)) for name, proof in proofs]
    return [(name, lines) for name, lines in found if lines]


def _collective_heads(name: str) -> list[tuple[str, str]]:
    return [(f"{name}time", "\u00b5s"), ("varies", "%"), (f"{name}busbw", "GB/s")]


def _varies(spread: Mapping[str, Any]) -> str:
    return "-" if spread.get("cv") is None else f"{spread['cv'] * 100:.1f}"


def _collective_cells(row: Mapping[str, Any] | None) -> list[str]:
    if row is None:
        return ["-"] * 3
    busbw = row.get("busbw_gbps")
    speed = "-" if busbw is None else f"{busbw['median']:.2f}"
    return [f"{row['time_us']['median']:.2f}", _varies(row["time_us"]), speed]


def _ratio(row: Mapping[str, Any] | None) -> list[str]:
    if row is None or row.get("ratio") is None:
        return ["-", "", ""]
    return [f"{row['ratio']:.3f}", noise_share(row.get("noise")), str(row.get("word") or "")]
