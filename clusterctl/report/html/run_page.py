"""The page of one run: its results, their reliability, and its configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterctl.benchmarks.key import ABSENT
from clusterctl.benchmarks.scaling import percent
from clusterctl.foreign import json_value
from clusterctl.report.html import bounds, figures, page, topology, trust, variants
from clusterctl.report.html.chart import Chart
from clusterctl.report.html.heat_map import of_proof
from clusterctl.report.html.scale import duration
from clusterctl.report.text.table import loss, size
from clusterctl.results.record import Record
from clusterctl.wording import counted

SETTING_NAMES = {"benchmark": "model", "batch_per_rank": "batch_size", "memory_format": "channels_last"}
"""Fields of the key that the settings contain under another name."""
# Entries of a proof without a section of their own on the page; they are shown as they are.
_AS_THEY_ARE = {"nccl", "paths", "usage", "sharing", "refused"}


# Longer names of variants do not fit into a heading.
_LONGEST_TITLE = 60


@dataclass(frozen=True, slots=True)
class Tile:
    """One main figure with its label, unit and note."""

    label: str
    value: str
    unit: str
    note: str


@dataclass(frozen=True, slots=True)
class PointRow:
    """One line of the table of a scaling curve."""

    np: int
    nodes: int
    samples_per_s: float
    per_rank: float
    spread: float | None
    efficiency: str
    losses: str
    """The loss of the first step and of the last one; empty if it was not recorded."""


def render(record: Record) -> str:
    """Return the page of one run as HTML text."""
    document, summary = record.document, record.summary
    proof = record.proof
    rows: Sequence[Mapping[str, Any]] = document.get("rows") or ()
    points = point_rows(record)
    unit = unit_of(document)
    np = ranks_of(record)
    key = key_of(record)
    compared = document.get("variants") or ()
    charts = variants.charts(compared, bounds.lines(record)) if compared else _charts(record)
    return page.render(
        "run.html.j2",
        summary=summary,
        title=title_of(record),
        tiles=_variant_tiles(compared) if len(compared) > 1 else _tiles(record, points, unit),
        failures=proof.failures or (),
        ways=trust.ways(proof),
        slow=trust.slow(proof),
        health=trust.health(proof),
        unread=proof.health.unread if proof.health else (),
        below=trust.below(proof),
        baseline=trust.baseline_sentence(proof),
        stragglers=trust.stragglers(proof, np),
        expected=bounds.sentence(proof.expected),
        expected_is_bad=proof.expected is not None and proof.expected.verdict in bounds.BAD,
        charts=[one for one in charts if one is not None],
        variants=variants.table(compared) if compared else None,
        proven=variants.proven(compared),
        repeats=variants.repeats(compared),
        measured=_measured(record),
        several=len(compared) > 1,
        rows=rows,
        in_place=any(row.get("in_place") for row in rows),
        points=points,
        between_nodes=[
            {"nodes": one.nodes, "efficiency": percent(one.efficiency)} for one in proof.between_nodes or ()
        ],
        unit=unit,
        heat=of_proof(proof, np, unit),
        heat_heading="Per-rank deviation" if points else "Deviation by node",
        topology=topology.of_proof(proof),
        ranks=proof.ranks or (),
        key=key,
        settings=_beside_the_key(proof.settings or {}, key),
        transports=proof.transports or (),
        commands=record.commands,
        rest={
            name: json.dumps(value, indent=1)
            for name, value in proof.model_dump(include=_AS_THEY_ARE | {*proof.more}).items()
            if value
        },
    )


def _charts(record: Record) -> list[Chart | None]:
    document = record.document
    rows = document.get("rows") or ()
    return [
        figures.busbw([(record.summary.library or "measured", rows)], bounds.lines(record)),
        figures.times([("measured", rows)]),
        figures.scaling([("measured", document.get("points") or (), record.proof.spread or {})]),
    ]


def title_of(record: Record) -> str:
    """Return one line with benchmark, ranks, nodes and hardware."""
    summary = record.summary
    where = summary.where
    if summary.np is not None and summary.hardware:
        where = f"{where}, {summary.hardware}"
    names = [str(one["name"]) for one in record.document.get("variants") or ()]
    if len(names) > 1:
        against = " against ".join(names)
        compared = against if len(against) <= _LONGEST_TITLE else f"{len(names)} variants compared"
        return f"{summary.benchmark}\u00a0\u00b7 {compared}\u00a0\u00b7 {where}"
    return f"{summary.benchmark} \u00b7 {where}"


def _measured(record: Record) -> str:
    """Return with which library the run measured, or which variants and how often."""
    compared = record.document.get("variants") or ()
    launcher = f"launcher {record.summary.launcher or 'none'}"
    if len(compared) > 1:
        names = ", ".join(str(one["name"]) for one in compared)
        return f"{len(compared)} variants interleaved: {names}; {variants.repeats(compared)}, {launcher}"
    repeats = f", {variants.repeats(compared)}" if compared else ""
    return f"library {record.document.get('library') or 'none'}, {launcher}{repeats}"


def ranks_of(record: Record) -> int | None:
    """Return the number of ranks of a run's last launch."""
    points = record.document.get("points") or ()
    return int(points[-1]["np"]) if points else record.summary.np


def unit_of(document: Mapping[str, Any]) -> str:
    """Return the unit of a document's points."""
    points = document.get("points") or ()
    return figures.samples_of(points[0])[1] if points else "images/s"


def key_of(record: Record) -> dict[str, str]:
    """Return the fields of a run's key that have a value."""
    key: dict[str, str] = json_value(record.summary.key) if record.summary.key else {}
    return {name: value for name, value in key.items() if value != ABSENT}


def _beside_the_key(settings: Mapping[str, Any], key: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the key does not contain."""
    said = {*key, *(setting for field, setting in SETTING_NAMES.items() if field in key)}
    words = {True: "yes", False: "no"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in settings.items()
        if name not in said
    }


def point_rows(record: Record) -> tuple[PointRow, ...]:
    """Return the lines of the scaling table; points without a rate are omitted."""
    spread = record.proof.spread or {}
    found = []
    for point in record.document.get("points") or ():
        value, _ = figures.samples_of(point)
        if value is not None:
            np = int(point["np"])
            off = spread.get(str(np))
            last = point.get("loss")
            losses = "" if last is None else f"{loss(point.get('loss_first'))} to {loss(last)}"
            share = percent(point.get("efficiency"))
            found.append(PointRow(np, int(point["nodes"]), value, value / np, off, share, losses))
    return tuple(found)


def _variant_tiles(compared: Sequence[Mapping[str, Any]]) -> list[Tile]:
    """Return the main figure of each variant, with the variant's name, and the wrong elements of all."""
    tiles = []
    for one in compared:
        fast = [row for row in one.get("rows") or () if row.get("busbw_gbps")]
        if fast:
            best = max(fast, key=lambda row: float(row["busbw_gbps"]["median"]))
            note = f"highest bus bandwidth, at {size(best['size_bytes'])}"
            tiles.append(Tile(str(one["name"]), f"{best['busbw_gbps']['median']:.2f}", "GB/s", note))
        for point in (one.get("points") or ())[-1:]:
            note = f"throughput of {counted(point['np'], 'rank')}"
            note += f", {point['word']}" if point.get("word") else ""
            value = _headline(point["samples_per_s"]["median"])
            tiles.append(Tile(str(one["name"]), value, f"{point['sample']}s/s", note))
    rows = [row for one in compared for row in one.get("rows") or ()]
    return [*tiles, *_wrong(rows, "of all variants")]


def _wrong(rows: Sequence[Mapping[str, Any]], of: str = "") -> list[Tile]:
    """Return the tile with the number of wrong elements; none for a training."""
    if not rows:
        return []
    checked = [row["wrong"] for row in rows if row.get("wrong") is not None]
    if not checked:
        return [Tile("Wrong elements", "?", "", "results were not checked")]
    sizes = f"{counted(len(rows), 'size')}"
    note = (
        f"all {sizes} were checked"
        if len(checked) == len(rows)
        else f"{len(checked)} of {sizes} were checked"
    )
    return [Tile("Wrong elements", str(sum(checked)), "", of or note)]


def _headline(value: float) -> str:
    return f"{value:.0f}" if value >= 10_000 else f"{value:.1f}"


def _tiles(record: Record, points: Sequence[PointRow], unit: str) -> list[Tile]:
    rows = record.document.get("rows") or ()
    tiles = []
    fast = [row for row in rows if row.get("busbw_gbps") is not None]
    if fast:
        best = max(fast, key=lambda row: float(row["busbw_gbps"]))
        tiles.append(
            Tile(
                "Highest bus bandwidth", f"{best['busbw_gbps']:.2f}", "GB/s", f"at {size(best['size_bytes'])}"
            )
        )
    average = record.document.get("avg_busbw_gbps")
    if average is not None:
        note = (
            f"{len(rows)} sizes, both columns"
            if any(r.get("in_place") for r in rows)
            else f"{len(rows)} sizes"
        )
        tiles.append(Tile("Avg bus bandwidth", f"{average:.2f}", "GB/s", note))
    expected = record.proof.expected
    if expected is not None and expected.share is not None and expected.expected_busbw_gbps is not None:
        note = f"{expected.expected_busbw_gbps:.1f} GB/s expected"
        tiles.append(Tile("Share of expected", f"{expected.share * 100:.1f}", "%", note))
    timed = [row for row in rows if row.get("time_us")]
    if timed:
        value, _, word = duration(timed[0]["time_us"]).partition(" ")
        tiles.append(
            Tile("Smallest message", value, word, f"per operation of {size(timed[0]['size_bytes'])}")
        )
    tiles += _wrong(rows)
    if points:
        last = points[-1]
        ranks = f"{counted(last.np, 'rank')}"
        tiles.append(Tile("Throughput", _headline(last.samples_per_s), unit, f"of {ranks}"))
        spread = f"\u00b1{last.spread:.1f} (1.96\u03c3)" if last.spread is not None else "spread unknown"
        tiles.append(Tile("Per rank", f"{last.per_rank:.1f}", unit, spread))
        if last.efficiency != "-" and last.np > 1:
            tiles.append(Tile("Linear scaling", last.efficiency.rstrip("%"), "%", f"{ranks} against 1"))
    return tiles
