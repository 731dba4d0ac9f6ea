"""Metrics as a Prometheus textfile (text exposition format 0.0.4) for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clusterctl.report.view import Metric
from clusterctl.text.visible import visible


def render(metrics: Iterable[Metric]) -> str:
    """Return the metrics as text; those of one name are one family.

    A collector rejects a file with two samples of the same labels. Two runs can share some configurations, such as
    scaling curves up to 2 and up to 4 ranks: the first sample is kept.
    """
    families: dict[str, list[Metric]] = {}
    for metric in metrics:
        families.setdefault(metric.name, []).append(metric)
    return "\n".join(line for found in families.values() for line in _family(found)) + "\n"


def _family(metrics: list[Metric]) -> Iterator[str]:
    name = metrics[0].name
    yield f"# HELP {name} {metrics[0].what}"
    yield f"# TYPE {name} gauge"
    samples: dict[str, float] = {}
    for labels, value in (sample for metric in metrics for sample in metric.samples):
        samples.setdefault(",".join(f'{key}="{_label(text)}"' for key, text in labels.items()), value)
    for inside, value in samples.items():
        yield f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"


def _label(value: object) -> str:
    return visible(str(value)).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
