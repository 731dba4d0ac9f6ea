"""Benchmarks as a Prometheus textfile: the newest run of each configuration, in base units (bytes, seconds)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from clusterctl.report.prometheus import family
from clusterctl.results.record import Record, key_text

_METRICS = {
    "clusterctl_bench_timestamp_seconds": "When the run began, in seconds since the epoch.",
    "clusterctl_bench_ok": "Whether the run succeeded: 1, or 0 if it failed or did not meet its baseline.",
    "clusterctl_bench_busbw_bytes_per_second": "Bus bandwidth of a collective by message size.",
    "clusterctl_bench_time_seconds": "Time of one operation of a collective by message size.",
    "clusterctl_bench_samples_per_second": "Images or sequences that all ranks trained on per second.",
    "clusterctl_bench_efficiency_ratio": "Throughput divided by the throughput of one rank and by the number of ranks.",
}


class _Samples:
    """Collect the samples of every metric, one per set of labels.

    A collector rejects a file with two samples of the same labels. Two runs can share some configurations, such as
    scaling curves up to 2 and up to 4 ranks: the first sample is kept.
    """

    def __init__(self) -> None:
        self.found: dict[str, dict[tuple[tuple[str, object], ...], tuple[dict[str, object], float]]] = {
            name: {} for name in _METRICS
        }

    def add(self, metric: str, labels: dict[str, object], value: float) -> None:
        self.found[metric].setdefault(tuple(labels.items()), (labels, value))


def render(records: Iterable[Record]) -> str:
    """Return the records, given newest first, as metrics; the label ``configuration`` is a hash of the key."""
    samples = _Samples()
    seen: set[tuple[tuple[str, object], ...]] = set()
    for record in records:
        labels = _labels(record, _last_key(record))
        if tuple(labels.items()) in seen:
            continue
        seen.add(tuple(labels.items()))
        summary = record.summary
        moment = datetime.fromisoformat(summary.started_at.replace("Z", "+00:00")).timestamp()
        samples.add("clusterctl_bench_timestamp_seconds", labels, moment)
        samples.add("clusterctl_bench_ok", labels, int(summary.status == "ok"))
        if summary.status == "failed":
            continue  # the figures of a failed run are not reliable
        _add_rows(samples, record, labels)
        _add_points(samples, record)
    blocks = [family(name, _METRICS[name], found.values()) for name, found in samples.found.items()]
    return "\n".join(line for block in blocks for line in block) + "\n"


def _last_key(record: Record) -> Mapping[str, str]:
    keys: dict[str, Any] = (record.document.get("proof") or {}).get("keys") or {}
    return keys[max(keys, key=int)] if keys else {}


def _labels(record: Record, key: Mapping[str, str]) -> dict[str, object]:
    summary = record.summary
    return {
        "benchmark": summary.benchmark,
        "library": record.document.get("library") or "",
        "launcher": summary.launcher or "",
        "np": key.get("np", ""),
        "nodes": key.get("nodes", ""),
        "hardware": summary.hardware or "",
        "configuration": hashlib.sha256(key_text(key).encode()).hexdigest()[:12] if key else "",
    }


def _add_rows(samples: _Samples, record: Record, labels: dict[str, object]) -> None:
    for row in record.document.get("rows") or ():
        here = {**labels, "size_bytes": row["size_bytes"]}
        if row.get("busbw_gbps") is not None:
            samples.add("clusterctl_bench_busbw_bytes_per_second", here, row["busbw_gbps"] * 1e9)
        if row.get("time_us") is not None:
            samples.add("clusterctl_bench_time_seconds", here, row["time_us"] / 1e6)


def _add_points(samples: _Samples, record: Record) -> None:
    keys = (record.document.get("proof") or {}).get("keys") or {}
    for point in record.document.get("points") or ():
        here = _labels(
            record, keys.get(str(point["np"])) or {"np": str(point["np"]), "nodes": str(point["nodes"])}
        )
        value = point.get("images_per_s") or point.get("sequences_per_s")
        if value:
            samples.add("clusterctl_bench_samples_per_second", here, value)
        if point.get("efficiency") is not None:
            samples.add("clusterctl_bench_efficiency_ratio", here, point["efficiency"])
