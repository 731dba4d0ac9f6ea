"""Benchmarks as CSV (RFC 4180): one line per message size or point of a curve, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from clusterctl.results.record import Record, key_text
from clusterctl.visible import visible

HEADS = (
    *("run", "started_at", "benchmark", "library", "launcher", "status", "hardware", "np", "nodes"),
    *("size_bytes", "time_us", "algbw_gbps", "busbw_gbps", "wrong"),
    *("samples_per_s", "samples_per_s_per_rank", "efficiency", "key"),
    *("in_place_time_us", "in_place_algbw_gbps", "in_place_busbw_gbps", "avg_busbw_gbps"),
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


def _lines(record: Record) -> Iterator[dict[str, Any]]:
    summary = record.summary
    first: dict[str, Any] = {name: getattr(summary, name) for name in HEADS[:9]}
    first |= {"library": record.document.get("library"), "key": summary.key}
    rows, points = record.document.get("rows") or (), record.document.get("points") or ()
    average = {"avg_busbw_gbps": record.document.get("avg_busbw_gbps")}
    for row in rows:
        half = {f"in_place_{name}": value for name, value in (row.get("in_place") or {}).items()}
        yield {**first, **{name: row.get(name) for name in HEADS[9:14]}, **half, **average}
    for point in points:
        value = point.get("images_per_s") or point.get("sequences_per_s")
        each = point.get("images_per_s_per_rank") or point.get("sequences_per_s_per_rank")
        figures = {
            "samples_per_s": value,
            "samples_per_s_per_rank": each,
            "efficiency": point.get("efficiency"),
        }
        yield {**first, "np": point["np"], "nodes": point["nodes"], **figures}
    # The rows and points of a run with variants are those of its first variant.
    for variant in (record.document.get("variants") or ())[1:]:
        yield from _of_variant(variant, first)
    if not rows and not points:
        yield first


def _of_variant(variant: dict[str, Any], first: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the medians of a variant; its library and its key identify it."""
    keys = variant["keys"]
    key = key_text(keys[max(keys, key=int)]) if keys else None
    own = {**first, "library": variant["library"], "key": key}
    for row in variant["rows"]:
        speed = row["busbw_gbps"] and row["busbw_gbps"]["median"]
        figures = {"time_us": row["time_us"]["median"], "busbw_gbps": speed, "wrong": row["wrong"]}
        yield {**own, "size_bytes": row["size_bytes"], **figures}
    for point in variant["points"]:
        value, np = point["samples_per_s"]["median"], point["np"]
        figures = {"samples_per_s": value, "samples_per_s_per_rank": value / np}
        yield {**own, "np": np, "nodes": point["nodes"], **figures, "efficiency": point["efficiency"]}


def _cell(value: object) -> object:
    if isinstance(value, str):
        shown = visible(value)
        return f"'{shown}" if shown.startswith(_FORMULA) else shown
    return "" if value is None else value
