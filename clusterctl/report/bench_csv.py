"""Benchmarks as CSV (RFC 4180): one line per message size or point of a curve, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from clusterctl.documents.bench import VariantHalf, VariantRow
from clusterctl.results.record import Record, key_text
from clusterctl.visible import visible

HEADS = (
    *("run", "started_at", "benchmark", "library", "launcher", "status", "hardware", "np", "nodes"),
    *("size_bytes", "time_us", "algbw_gbps", "busbw_gbps", "wrong"),
    *("samples_per_s", "samples_per_s_per_rank", "efficiency", "key"),
    *("in_place_time_us", "in_place_algbw_gbps", "in_place_busbw_gbps", "avg_busbw_gbps"),
    *("variant", "efficiency_between_nodes", "loss_first", "loss", "ratio"),
)
# Spreadsheets read a cell with one of these first characters as a formula (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA = ("=", "+", "-", "@", "\t")


def render(records: Iterable[Record]) -> str:
    """Return the runs as CSV with a header; a run without figures has one line without them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADS, restval="", lineterminator="\r\n")
    writer.writeheader()
    for record in records:
        for line in _lines(record):
            writer.writerow({name: _cell(value) for name, value in line.items()})
    return text.getvalue()


def _lines(record: Record) -> Iterator[dict[str, object]]:
    summary, result = record.summary, record.result
    first: dict[str, object] = {name: getattr(summary, name) for name in HEADS[:9]}
    if not any(one.rows or one.points for one in result.variants):
        yield {**first, "library": result.library, "key": summary.key}
    for number, one in enumerate(result.variants):
        own = {
            **first, "library": one.library, "key": key_text(one.key) if one.key else None,
            "variant": one.name if len(result.variants) > 1 else None,
        }  # fmt: skip
        for row in one.rows:
            half = {f"in_place_{name}": value for name, value in _half(row.in_place).items()}
            average = {"avg_busbw_gbps": result.avg_busbw_gbps} if number == 0 else {}
            yield {
                **own, "size_bytes": row.size_bytes, "wrong": row.wrong, "ratio": row.ratio, **_half(row), **half,
                **average,
            }  # fmt: skip
        for point in one.points:
            yield {
                **own, "np": point.np, "nodes": point.nodes, "samples_per_s": point.samples_per_s.median,
                "samples_per_s_per_rank": point.samples_per_s_per_rank, "efficiency": point.efficiency,
                "efficiency_between_nodes": point.efficiency_between_nodes, "loss_first": point.loss_first,
                "loss": point.loss, "ratio": point.ratio,
            }  # fmt: skip


def _half(half: VariantRow | VariantHalf | None) -> dict[str, float]:
    """Return the medians of one half of a row."""
    if half is None:
        return {}
    found = {"time_us": half.time_us, "algbw_gbps": half.algbw_gbps, "busbw_gbps": half.busbw_gbps}
    return {name: value.median for name, value in found.items() if value is not None}


def _cell(value: object) -> object:
    if isinstance(value, str):
        shown = visible(value)
        return f"'{shown}" if shown.startswith(_FORMULA) else shown
    return "" if value is None else value
