"""Benchmarks as a Prometheus textfile: the newest run of each configuration, in base units (bytes, seconds)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from clusterctl.documents.bench import VariantResult
from clusterctl.report.prometheus import family
from clusterctl.results.record import Record, key_text

_METRICS = {
    "clusterctl_bench_timestamp_seconds": "When the run began, in seconds since the epoch.",
    "clusterctl_bench_ok": "Whether the run succeeded: 1, or 0 if it failed, is doubtful or missed its baseline.",
    "clusterctl_bench_hardware_events": "Faults and limits that a node's hardware reported during the run, by effect.",
    "clusterctl_bench_busbw_bytes_per_second": "Bus bandwidth of a collective by message size.",
    "clusterctl_bench_time_seconds": "Time of one operation of a collective by message size.",
    "clusterctl_bench_samples_per_second": "Images or sequences that all ranks trained on per second.",
    "clusterctl_bench_efficiency_ratio": "Throughput divided by the throughput of one rank and by the number of ranks.",
    "clusterctl_bench_efficiency_between_nodes_ratio": (
        "Throughput divided by the throughput of one node with as many ranks per node, and by the number of nodes."
    ),
    "clusterctl_bench_loss": "Loss of the last step of a training, the mean of all ranks.",
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
        variants = record.result.variants
        labels = _labels(record, variants[0].key if variants else {})
        if tuple(labels.items()) in seen:
            continue
        seen.add(tuple(labels.items()))
        summary = record.summary
        moment = datetime.fromisoformat(summary.started_at.replace("Z", "+00:00")).timestamp()
        samples.add("clusterctl_bench_timestamp_seconds", labels, moment)
        samples.add("clusterctl_bench_ok", labels, int(summary.status == "ok"))
        for (node, effect), count in _events(record).items():
            here = {**labels, "node": node, "effect": effect}
            samples.add("clusterctl_bench_hardware_events", here, count)
        if summary.status == "failed":
            continue  # the figures of a failed run are not reliable
        for one in record.result.variants:
            _add(samples, record, one)
    blocks = [family(name, _METRICS[name], found.values()) for name, found in samples.found.items()]
    return "\n".join(line for block in blocks for line in block) + "\n"


def _labels(record: Record, key: Mapping[str, str]) -> dict[str, object]:
    summary = record.summary
    return {
        "benchmark": summary.benchmark,
        "library": record.result.library or "",
        "launcher": summary.launcher or "",
        "np": key.get("np", ""),
        "nodes": key.get("nodes", ""),
        "hardware": summary.hardware or "",
        "configuration": hashlib.sha256(key_text(key).encode()).hexdigest()[:12] if key else "",
        "variant": "",
    }


def _events(record: Record) -> Counter[tuple[str, str]]:
    """Return the number of events of ``proof.health`` by node and effect."""
    health = record.result.proof.health
    return Counter((event.node, event.effect.value) for event in (health.events if health else ()))


def _add(samples: _Samples, record: Record, one: VariantResult) -> None:
    """Add the figures of a variant; the only variant of a run has no name."""
    several = len(record.result.variants) > 1
    own = {"library": one.library or "", "variant": one.name if several else ""}
    for row in one.rows:
        here = {**_labels(record, one.key), **own, "size_bytes": row.size_bytes}
        if row.busbw_gbps is not None:
            samples.add("clusterctl_bench_busbw_bytes_per_second", here, row.busbw_gbps.median * 1e9)
        samples.add("clusterctl_bench_time_seconds", here, row.time_us.median / 1e6)
    for point in one.points:
        np = str(point.np)
        here = {**_labels(record, one.keys.get(np) or {"np": np, "nodes": str(point.nodes)}), **own}
        figures = {
            "clusterctl_bench_samples_per_second": point.samples_per_s.median,
            "clusterctl_bench_efficiency_ratio": point.efficiency,
            "clusterctl_bench_efficiency_between_nodes_ratio": point.efficiency_between_nodes,
            "clusterctl_bench_loss": point.loss,
        }
        for metric, value in figures.items():
            if value is not None:
                samples.add(metric, here, value)
