"""The page of one run: its results, their reliability, and its configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from clusterctl.benchmarks.key import ABSENT
from clusterctl.benchmarks.scaling import percent
from clusterctl.documents.bench import BenchResult, VariantResult, VariantRow
from clusterctl.foreign import json_value
from clusterctl.report import bench_table
from clusterctl.report.html import bounds, page, topology, trust, variants
from clusterctl.report.html.heat_map import of_proof
from clusterctl.report.html.scale import duration
from clusterctl.report.text.table import size
from clusterctl.report.view import Tile
from clusterctl.results.record import Record
from clusterctl.wording import counted

SETTING_NAMES = {"benchmark": "model", "batch_per_rank": "batch_size", "memory_format": "channels_last"}
"""Fields of the key that the settings contain under another name."""
# Entries of a proof without a section of their own on the page; they are shown as they are.
_AS_THEY_ARE = {"nccl", "paths", "usage", "sharing", "refused"}


# Longer names of variants do not fit into a heading.
_LONGEST_TITLE = 60


def render(record: Record) -> str:
    """Return the page of one run as HTML text."""
    result, summary = record.result, record.summary
    proof = result.proof
    unit = unit_of(result)
    np = ranks_of(record)
    key = key_of(record)
    several = len(result.variants) > 1
    found = bench_table.table(result)
    return page.render(
        "run.html.j2",
        summary=summary,
        title=title_of(record),
        tiles=_variant_tiles(result.variants) if several else _tiles(result),
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
        charts=variants.charts(result, bounds.lines(record)),
        figures=found.on_page() if found is not None else None,
        proven=variants.proven(result.variants) if several else (),
        repeats=bench_table.repeats(one.repeats for one in result.variants),
        repeated=any(one.repeats > 1 for one in result.variants),
        measured=_measured(record),
        several=several,
        heat=of_proof(proof, np, unit),
        heat_heading="Per-rank deviation" if result.points else "Deviation by node",
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


def title_of(record: Record) -> str:
    """Return one line with benchmark, ranks, nodes and hardware."""
    summary = record.summary
    where = summary.where
    if summary.np is not None and summary.hardware:
        where = f"{where}, {summary.hardware}"
    names = [one.name for one in record.result.variants]
    if len(names) > 1:
        against = " against ".join(names)
        compared = against if len(against) <= _LONGEST_TITLE else f"{len(names)} variants compared"
        return f"{summary.benchmark}\u00a0\u00b7 {compared}\u00a0\u00b7 {where}"
    return f"{summary.benchmark} \u00b7 {where}"


def _measured(record: Record) -> str:
    """Return with which library the run measured, or which variants and how often."""
    compared = record.result.variants
    launcher = f"launcher {record.summary.launcher or 'none'}"
    said = bench_table.repeats(one.repeats for one in compared)
    if len(compared) > 1:
        names = ", ".join(one.name for one in compared)
        return f"{len(compared)} variants interleaved: {names}; {said}, {launcher}"
    repeats = f", {said}" if record.result.repeats > 1 else ""
    return f"library {record.result.library or 'none'}, {launcher}{repeats}"


def ranks_of(record: Record) -> int | None:
    """Return the number of ranks of a run's last launch."""
    points = record.result.points
    return points[-1].np if points else record.summary.np


def unit_of(result: BenchResult) -> str:
    """Return the unit of a result's points."""
    return result.points[0].unit if result.points else "images/s"


def key_of(record: Record) -> dict[str, str]:
    """Return the fields of a run's key that have a value."""
    key: dict[str, str] = json_value(record.summary.key) if record.summary.key else {}
    return {name: value for name, value in key.items() if value != ABSENT}


def _beside_the_key(settings: Mapping[str, JsonValue], key: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the key does not contain."""
    said = {*key, *(setting for field, setting in SETTING_NAMES.items() if field in key)}
    words = {True: "yes", False: "no"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in settings.items()
        if name not in said
    }


def _variant_tiles(compared: Sequence[VariantResult]) -> list[Tile]:
    """Return the main figure of each variant, with the variant's name, and the wrong elements of all."""
    tiles = []
    for one in compared:
        if fast := _fastest(one.rows):
            tiles.append(
                Tile(one.name, f"{fast[0]:.2f}", "GB/s", f"highest bus bandwidth, at {size(fast[1])}")
            )
        for point in one.points[-1:]:
            note = f"throughput of {counted(point.np, 'rank')}"
            note += f", {point.word.value}" if point.word else ""
            tiles.append(Tile(one.name, _headline(point.samples_per_s.median), point.unit, note))
    return [*tiles, *_wrong([row for one in compared for row in one.rows], "of all variants")]


def _fastest(rows: Sequence[VariantRow]) -> tuple[float, int] | None:
    """Return the highest bus bandwidth, out of place if it was measured, and its size in bytes."""
    found = [(row.busbw_gbps.median, row.size_bytes) for row in rows if row.busbw_gbps is not None]
    return max(found, key=lambda one: one[0], default=None)


def _wrong(rows: Sequence[VariantRow], of: str = "") -> list[Tile]:
    """Return the tile with the number of wrong elements; none for a training."""
    if not rows:
        return []
    checked = [row.wrong for row in rows if row.wrong is not None]
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


def _tiles(result: BenchResult) -> list[Tile]:
    rows = result.rows
    tiles = []
    if fast := _fastest(rows):
        tiles.append(Tile("Highest bus bandwidth", f"{fast[0]:.2f}", "GB/s", f"at {size(fast[1])}"))
    if result.avg_busbw_gbps is not None:
        both = ", both columns" if any(row.in_place for row in rows) else ""
        tiles.append(
            Tile("Avg bus bandwidth", f"{result.avg_busbw_gbps:.2f}", "GB/s", f"{len(rows)} sizes{both}")
        )
    expected = result.proof.expected
    if expected is not None and expected.share is not None and expected.expected_busbw_gbps is not None:
        note = f"{expected.expected_busbw_gbps:.1f} GB/s expected"
        tiles.append(Tile("Share of expected", f"{expected.share * 100:.1f}", "%", note))
    timed = [row for row in rows if row.time_us.median]
    if timed:
        value, _, word = duration(timed[0].time_us.median).partition(" ")
        tiles.append(Tile("Smallest message", value, word, f"per operation of {size(timed[0].size_bytes)}"))
    tiles += _wrong(rows)
    for last in result.points[-1:]:
        ranks = f"{counted(last.np, 'rank')}"
        off = (result.proof.spread or {}).get(str(last.np))
        spread = f"\u00b1{off:.1f} (1.96\u03c3)" if off is not None else "spread unknown"
        tiles.append(Tile("Throughput", _headline(last.samples_per_s.median), last.unit, f"of {ranks}"))
        tiles.append(Tile("Per rank", f"{last.samples_per_s_per_rank:.1f}", last.unit, spread))
        if last.efficiency is not None and last.np > 1:
            share = percent(last.efficiency).rstrip("%")
            tiles.append(Tile("Linear scaling", share, "%", f"{ranks} against 1"))
    return tiles
