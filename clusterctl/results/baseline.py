"""Baselines of your own fleet: repeated figures under their keys, and the rules that judge a new run against them.

A figure is below its baseline if its drop from the median of the repeats exceeds an allowed share. That share is the
larger of a floor and the repeats' coefficient of variation times a factor. The factor is that of a prediction interval:
by chance, one healthy figure in a thousand is below. It is large for few repeats, whose noise is poorly known. With one
or two repeats the floor is wider, small messages are not judged, and the comparison reports both. A difference within
rounding is not a drop: programs print bandwidths with two decimals, and small messages have few significant digits.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from clusterctl.benchmarks.key import FIELDS, differences

ENOUGH_REPEATS = 3
FLOOR = 0.05
FLOOR_FEW_REPEATS = 0.10
# Student's t, one-sided 0.001, by degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
_STUDENT = {
    1: 318.31, 2: 22.327, 3: 10.215, 4: 7.173, 5: 5.893, 6: 5.208, 7: 4.785, 8: 4.501, 9: 4.297, 10: 4.144,
    12: 3.930, 15: 3.733, 20: 3.552, 30: 3.385, 60: 3.232,
}  # fmt: skip
# Smaller messages measure latency, which noise occasionally doubles.
LARGE_BYTES = 1 << 20
# The largest rounding error of a printed figure.
_ROUNDED = {"GB/s": 0.005}
# A baseline must also judge new versions of a library or torch: such figures are compared, with a note.
_MAY_DIFFER = ("library_version", "torch")

Verdict = Literal["ok", "below-baseline", "no-match"]


def noise_factor(repeats: int) -> float:
    """Return the allowed drop below ``repeats`` (2 or more) other figures, in coefficients of variation."""
    student = max((degrees, t) for degrees, t in _STUDENT.items() if degrees <= repeats - 1)[1]
    return student * math.sqrt(1 + 1 / repeats)


@dataclass(frozen=True, slots=True)
class BaselineFigure:
    """One figure of a run: message size in bytes (None: a training's throughput), unit and value."""

    size_bytes: int | None
    unit: str
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """The repeats of one figure, one value per run."""

    size_bytes: int | None
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def cv(self) -> float | None:
        """Return the coefficient of variation; None for one repeat."""
        mean = statistics.fmean(self.values)
        return statistics.stdev(self.values) / mean if len(self.values) > 1 and mean > 0 else None

    @property
    def allowed(self) -> float | None:
        """Return the allowed drop as a share; None: not judged."""
        if len(self.values) >= ENOUGH_REPEATS:
            return max(FLOOR, noise_factor(len(self.values)) * (self.cv or 0.0))
        if self.size_bytes is not None and self.size_bytes < LARGE_BYTES:
            return None
        return FLOOR_FEW_REPEATS


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """All figures of one key, with the ids of their runs."""

    key: Mapping[str, str]
    runs: tuple[str, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A named set of entries."""

    name: str
    entries: tuple[BaselineEntry, ...] = ()

    @property
    def runs(self) -> tuple[str, ...]:
        """Return the runs of all entries without duplicates."""
        return tuple(dict.fromkeys(run for entry in self.entries for run in entry.runs))


@dataclass(frozen=True, slots=True)
class Regression:
    """One figure that is below its baseline."""

    figure: BaselineFigure
    baseline: float
    allowed: float
    np: str

    @property
    def loss(self) -> float:
        return 1 - self.figure.value / self.baseline


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """A run compared with a baseline. ``notes`` weaken the verdict: few repeats, other versions."""

    name: str
    verdict: Verdict
    judged: int
    below: tuple[Regression, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def document(self) -> dict[str, Any]:
        """Return it as ``proof.baseline`` of a result."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "reason": "; ".join(self.notes) or None,
            "judged": self.judged,
            "below": [
                {
                    "np": int(below.np),
                    "size_bytes": below.figure.size_bytes,
                    "unit": below.figure.unit,
                    "value": round(below.figure.value, 4),
                    "baseline": round(below.baseline, 4),
                    "loss": round(below.loss, 4),
                    "allowed": round(below.allowed, 4),
                }
                for below in self.below
            ],
        }


def figures(document: Mapping[str, Any]) -> list[tuple[dict[str, str], list[BaselineFigure]]]:
    """Return the figures of one ``clusterctl.bench/1`` document under their keys; empty if it has no keys."""
    keys: Mapping[str, dict[str, str]] = (document.get("proof") or {}).get("keys") or {}
    found = []
    for point in document.get("points") or ():
        for name, unit in (("images_per_s", "images/s"), ("sequences_per_s", "sequences/s")):
            if point.get(name) is not None and str(point["np"]) in keys:
                found.append((keys[str(point["np"])], [BaselineFigure(None, unit, float(point[name]))]))
    rows = [
        BaselineFigure(int(row["size_bytes"]), "GB/s", float(row["busbw_gbps"]))
        for row in document.get("rows") or ()
        if row.get("busbw_gbps")
    ]
    if rows and keys:
        found.append((keys[max(keys, key=int)], rows))
    return found


def record(baseline: Baseline, document: Mapping[str, Any]) -> Baseline:
    """Return the baseline with one more run's figures; a run that it already contains changes nothing."""
    run = str(document["run"])
    if run in baseline.runs:
        return baseline
    entries = list(baseline.entries)
    for key, found in figures(document):
        at = next((i for i, entry in enumerate(entries) if not differences(entry.key, key)), None)
        if at is None:
            entries.append(
                BaselineEntry(key, (run,), tuple(Series(f.size_bytes, f.unit, (f.value,)) for f in found))
            )
        else:
            entries[at] = _with(entries[at], run, found)
    return Baseline(baseline.name, tuple(entries))


def _with(entry: BaselineEntry, run: str, found: Sequence[BaselineFigure]) -> BaselineEntry:
    series = {(one.size_bytes, one.unit): one.values for one in entry.series}
    for figure in found:
        name = (figure.size_bytes, figure.unit)
        series[name] = (*series.get(name, ()), figure.value)
    return BaselineEntry(
        entry.key, (*entry.runs, run), tuple(Series(size, unit, v) for (size, unit), v in series.items())
    )


def compare(baseline: Baseline, document: Mapping[str, Any]) -> BaselineComparison:
    """Compare a run's figures with the baseline; ``no-match`` if no figure has a judged counterpart."""
    below: list[Regression] = []
    notes: dict[str, None] = {}
    judged = 0
    for key, found in figures(document):
        entry, differing = _nearest(baseline, key)
        if entry is None or any(name not in _MAY_DIFFER for name in differing):
            notes[_mismatch(key, differing)] = None
            continue
        for name, (here, there) in differing.items():
            notes[f"{name} is {here}, the baseline's {there}"] = None
        if len(entry.runs) < ENOUGH_REPEATS:
            notes[
                f"{len(entry.runs)} of {ENOUGH_REPEATS} repeats recorded: wider floor, small messages not judged"
            ] = None
        series = {(one.size_bytes, one.unit): one for one in entry.series}
        for figure in found:
            one = series.get((figure.size_bytes, figure.unit))
            if one is None or one.allowed is None:
                continue
            judged += 1
            off = _ROUNDED.get(figure.unit, 0.0)
            if figure.value + off < (one.median - off) * (1 - one.allowed):
                below.append(Regression(figure, one.median, one.allowed, key["np"]))
    verdict: Verdict = "below-baseline" if below else "ok" if judged else "no-match"
    if verdict == "no-match" and not notes:
        notes["the run has no figure at the recorded sizes"] = None
    return BaselineComparison(baseline.name, verdict, judged, tuple(below), tuple(notes))


def _nearest(
    baseline: Baseline, key: Mapping[str, str]
) -> tuple[BaselineEntry | None, dict[str, tuple[str, str]]]:
    """Return the entry whose key differs least, and the differences: (here, in the baseline) by field.

    Fields that may differ weigh least: an entry of other versions can be compared, an entry with another number of
    ranks cannot.
    """
    best: tuple[BaselineEntry | None, dict[str, tuple[str, str]]] = (None, {})
    weight = (len(FIELDS) + 1, 0)
    for entry in baseline.entries:
        found = differences(key, entry.key)
        telling = sum(name not in _MAY_DIFFER for name in found)
        # Of equally near entries, the newest is taken.
        if (telling, len(found)) <= weight:
            best, weight = (entry, found), (telling, len(found))
    return best


def _mismatch(key: Mapping[str, str], differing: Mapping[str, tuple[str, str]]) -> str:
    if not differing:
        return "the baseline is empty"
    listed = [f"{name} is {here}, the nearest has {there}" for name, (here, there) in differing.items()]
    telling = [text for text, name in zip(listed, differing, strict=True) if name not in _MAY_DIFFER]
    return f"no recorded entry matches {key['benchmark']} on {key['np']} ranks: {', '.join(telling[:4])}"
