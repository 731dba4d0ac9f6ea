"""The figures of a ``clusterctl.bench/1`` document as one series per variant, for CSV and Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterctl.documents.proof import Proof
from clusterctl.results.record import Record

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BenchSeries:
    """Hold one variant's medians, or the figures of a run without variants (``variant`` is None)."""

    variant: str | None
    library: str | None
    keys: Mapping[str, Mapping[str, str]]
    rows: tuple[Figures, ...]
    points: tuple[Figures, ...]
    """Each with ``samples_per_s``, ``samples_per_s_per_rank``, the efficiencies and the losses."""

    @property
    def key(self) -> Mapping[str, str]:
        """Return the key of the largest number of ranks; empty without keys."""
        return self.keys[max(self.keys, key=int)] if self.keys else {}


def series(record: Record) -> Iterator[BenchSeries]:
    """Yield the run's figures, or those of each variant."""
    document = record.document
    variants: Sequence[Figures] = document.get("variants") or ()
    rows: tuple[Figures, ...] = tuple(document.get("rows") or ())
    if not variants:
        points = tuple(_plain(point, record.proof) for point in document.get("points") or ())
        yield BenchSeries(None, document.get("library"), record.proof.keys or {}, rows, points)
    for number, one in enumerate(variants):
        # The run's own rows are those of the first variant, with more columns.
        own = rows if number == 0 else tuple(map(_medians, one.get("rows") or ()))
        points = tuple(map(_medians, one.get("points") or ()))
        yield BenchSeries(one["name"], one.get("library"), one.get("keys") or {}, own, points)


def _plain(point: Figures, proof: Proof) -> Figures:
    between = {one.np: one.efficiency for one in proof.between_nodes or ()}
    return {
        **point,
        "samples_per_s": point.get("images_per_s") or point.get("sequences_per_s"),
        "samples_per_s_per_rank": point.get("images_per_s_per_rank") or point.get("sequences_per_s_per_rank"),
        "efficiency_between_nodes": between.get(point["np"]),
    }


def _medians(part: Figures) -> Figures:
    found = {name: value["median"] if isinstance(value, Mapping) else value for name, value in part.items()}
    if "samples_per_s" in found:
        found["samples_per_s_per_rank"] = found["samples_per_s"] / found["np"]
    return found
