"""Benchmarks as CSV (RFC 4180): one line per message size or point of a curve, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from clusterctl.report.bench_series import series
from clusterctl.results.record import Record, key_text
from clusterctl.visible import visible

HEADS = (
    *("run", "started_at", "benchmark", "library", "launcher", "status", "hardware", "np", "nodes"),
    *("size_bytes", "time_us", "algbw_gbps", "busbw_gbps", "wrong"),
    *("samples_per_s", "samples_per_s_per_rank", "efficiency", "key"),
    *("in_place_time_us", "in_place_algbw_gbps", "in_place_busbw_gbps", "avg_busbw_gbps"),
    *("variant", "efficiency_between_nodes", "loss_first", "loss", "ratio"),
)
_OF_ROWS = (*HEADS[9:14], "ratio")
_OF_POINTS = (*("np", "nodes"), *HEADS[14:17], *HEADS[-4:])
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
    average = {"avg_busbw_gbps": record.document.get("avg_busbw_gbps")}
    found = False
    for number, one in enumerate(series(record)):
        key = (key_text(one.key) if one.key else None) if one.variant else summary.key
        own = {**first, "library": one.library, "key": key, "variant": one.variant}
        for row in one.rows:
            half = {f"in_place_{name}": value for name, value in (row.get("in_place") or {}).items()}
            yield {
                **own,
                **{name: row.get(name) for name in _OF_ROWS},
                **half,
                **(average if number == 0 else {}),
            }
        for point in one.points:
            yield {**own, **{name: point.get(name) for name in _OF_POINTS}}
        found = found or bool(one.rows or one.points)
    if not found:
        yield {**first, "library": record.document.get("library"), "key": summary.key}


def _cell(value: object) -> object:
    if isinstance(value, str):
        shown = visible(value)
        return f"'{shown}" if shown.startswith(_FORMULA) else shown
    return "" if value is None else value
