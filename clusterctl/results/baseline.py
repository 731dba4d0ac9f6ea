"""Baselines of your own fleet: repeated figures under their keys, and the rules that judge a new run against them.

A figure is below its baseline if its drop from the median of the repeats exceeds an allowed share. That share is the
larger of a floor and the repeats' coefficient of variation times a factor. The factor is that of a prediction interval:
by chance, one healthy figure in a thousand is below. It is large for few repeats, whose noise is poorly known. If the
allowed drop would be more than ``LARGEST_DROP``, the figure is too noisy to judge, and the comparison reports that and
the number of repeats that it needs. With one or two repeats the floor is wider, and small messages are not judged. A
difference within rounding is not a drop: programs print bandwidths with two decimals, and small messages have few
significant digits.

The repeats of one run (``bench --repeats``) and those of several runs count alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from clusterctl.benchmarks.key import FIELDS, differences
from clusterctl.documents.bench import BenchResult, Spread
from clusterctl.documents.proof import BaselineVerdict, FigureBelow, NoisyFigure, UnrecordedFigure
from clusterctl.results import noise

ENOUGH_REPEATS = 3
FLOOR = 0.05
FLOOR_FEW_REPEATS = 0.10
LARGEST_DROP = 0.5
"""A figure that could fall by more than this share without failing is not judged."""
MOST_REPEATS = 30
"""More repeats than these are never recommended: less noise is the better way."""
_CHANCE = 0.001
# Smaller messages measure latency, which noise occasionally doubles.
LARGE_BYTES = 1 << 20
# The largest rounding error of a printed figure.
_ROUNDED = {"GB/s": 0.005}
# A baseline must also judge new versions of a library or torch: such figures are compared, with a note.
_MAY_DIFFER = ("library_version", "torch")

Verdict = Literal["ok", "below-baseline", "not-judged", "no-match"]


def noise_factor(repeats: int) -> float:
    """Return the allowed drop below ``repeats`` (2 or more) other figures, in coefficients of variation."""
    return noise.quantile(repeats - 1, 2 * _CHANCE) * math.sqrt(1 + 1 / repeats)


@dataclass(frozen=True, slots=True)
class Series:
    """The repeats of one figure: its message size in bytes (None: a training's throughput) and its unit."""

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
        if self.noisy:
            return None
        if len(self.values) >= ENOUGH_REPEATS:
            return self._wanted(len(self.values))
        if self.size_bytes is not None and self.size_bytes < LARGE_BYTES:
            return None
        return FLOOR_FEW_REPEATS

    @property
    def noisy(self) -> bool:
        """Tell whether the repeats vary too much for a judgement that could fail."""
        return len(self.values) >= ENOUGH_REPEATS and self._wanted(len(self.values)) > LARGEST_DROP

    @property
    def needed(self) -> int | None:
        """Return about how many repeats with this noise can be judged; None: more than ``MOST_REPEATS``."""
        enough = (n for n in range(ENOUGH_REPEATS, MOST_REPEATS + 1) if self._wanted(n) <= LARGEST_DROP)
        return next(enough, None)

    def _wanted(self, repeats: int) -> float:
        return max(FLOOR, noise_factor(repeats) * (self.cv or 0.0))


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """All figures of one key, with the ids of their runs."""

    key: Mapping[str, str]
    runs: tuple[str, ...]
    series: tuple[Series, ...]

    @property
    def repeats(self) -> int:
        """Return the number of repeats of the figure that was measured most often."""
        return max((len(one.values) for one in self.series), default=0)

    @property
    def noisy(self) -> tuple[Series, ...]:
        """Return the figures that are too noisy to judge."""
        return tuple(one for one in self.series if one.noisy)


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

    figure: Series
    baseline: float
    allowed: float
    np: str

    @property
    def loss(self) -> float:
        return 1 - self.figure.median / self.baseline


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """A run compared with a baseline. ``notes`` weaken the verdict: few repeats, other versions.

    ``figures`` is the number of all figures of the run. ``noisy`` are those that were recorded, but vary too much;
    ``absent`` those of a recorded configuration that were not recorded.
    """

    name: str
    verdict: Verdict
    judged: int
    figures: int
    below: tuple[Regression, ...] = ()
    noisy: tuple[tuple[str, Series], ...] = ()
    absent: tuple[tuple[str, Series], ...] = ()
    notes: tuple[str, ...] = field(default=())
    hint: str | None = None

    def part(self) -> BaselineVerdict:
        """Return it as ``proof.baseline`` of a result."""
        return BaselineVerdict(
            name=self.name,
            verdict=self.verdict,
            reason="; ".join(self.notes) or None,
            hint=self.hint,
            judged=self.judged,
            figures=self.figures,
            too_noisy=tuple(
                NoisyFigure(
                    np=int(np),
                    size_bytes=one.size_bytes,
                    unit=one.unit,
                    cv=round(one.cv or 0.0, 4),
                    repeats=len(one.values),
                    needed=one.needed,
                )
                for np, one in self.noisy
            ),
            not_recorded=tuple(
                UnrecordedFigure(np=int(np), size_bytes=one.size_bytes) for np, one in self.absent
            ),
            below=tuple(
                FigureBelow(
                    np=int(below.np),
                    size_bytes=below.figure.size_bytes,
                    unit=below.figure.unit,
                    value=round(below.figure.median, 4),
                    baseline=round(below.baseline, 4),
                    loss=round(below.loss, 4),
                    allowed=round(below.allowed, 4),
                )
                for below in self.below
            ),
        )


def figures(result: BenchResult) -> list[tuple[dict[str, str], list[Series]]]:
    """Return the figures of each variant of a run under the variant's keys; empty if it has no keys."""
    found = []
    for one in result.variants:
        for point in one.points:
            values = _values(point.samples_per_s)
            if values and str(point.np) in one.keys:
                found.append((one.keys[str(point.np)], [Series(None, point.unit, values)]))
        speeds = [(row.size_bytes, _values(row.busbw_gbps)) for row in one.rows]
        rows = [Series(size_bytes, "GB/s", values) for size_bytes, values in speeds if values]
        if rows and one.keys:
            found.append((one.key, rows))
    return found


def _values(figure: Spread | None) -> tuple[float, ...]:
    """Return the repeats of a figure; none if one of them is not above zero."""
    found = figure.values if figure is not None else ()
    return found if all(value > 0 for value in found) else ()


def record(baseline: Baseline, result: BenchResult) -> Baseline:
    """Return the baseline with one more run's figures; a run that it already contains changes nothing."""
    run = result.run
    if run in baseline.runs:
        return baseline
    entries = list(baseline.entries)
    for key, found in figures(result):
        at = next((i for i, entry in enumerate(entries) if not differences(entry.key, key)), None)
        if at is None:
            entries.append(BaselineEntry(key, (run,), tuple(found)))
        else:
            entries[at] = _with(entries[at], run, found)
    return Baseline(baseline.name, tuple(entries))


def _with(entry: BaselineEntry, run: str, found: Sequence[Series]) -> BaselineEntry:
    series = {(one.size_bytes, one.unit): one.values for one in entry.series}
    for figure in found:
        name = (figure.size_bytes, figure.unit)
        series[name] = (*series.get(name, ()), *figure.values)
    return BaselineEntry(
        entry.key, (*entry.runs, run), tuple(Series(size, unit, v) for (size, unit), v in series.items())
    )


def compare(baseline: Baseline, result: BenchResult) -> BaselineComparison:
    """Compare a run's figures with the baseline.

    The verdict is ``no-match`` without an entry of the run's configuration, and ``not-judged`` if there is one that
    cannot judge any figure.
    """
    below: list[Regression] = []
    noisy: list[tuple[str, Series]] = []
    absent: list[tuple[str, Series]] = []
    notes: dict[str, None] = {}
    judged = matched = few = 0
    all_found = figures(result)
    for key, found in all_found:
        entry, differing = _nearest(baseline, key)
        if entry is None or any(name not in _MAY_DIFFER for name in differing):
            notes[_mismatch(key, differing)] = None
            continue
        for name, (here, there) in differing.items():
            notes[f"{name} is {here}, the baseline's {there}"] = None
        series = {(one.size_bytes, one.unit): one for one in entry.series}
        common = [(f, one) for f in found if (one := series.get((f.size_bytes, f.unit))) is not None]
        matched += len(common)
        absent += [(key["np"], one) for one in found if (one.size_bytes, one.unit) not in series]
        if entry.repeats < ENOUGH_REPEATS:
            few = max(few, entry.repeats)
            notes[_few(entry.repeats, common)] = None
        noisy += [(key["np"], one) for _, one in common if one.noisy]
        for figure, one in common:
            if one.allowed is None:
                continue
            judged += 1
            off = _ROUNDED.get(figure.unit, 0.0)
            if figure.median + off < (one.median - off) * (1 - one.allowed):
                below.append(Regression(figure, one.median, one.allowed, key["np"]))
    verdict: Verdict = (
        "below-baseline" if below else "ok" if judged else "not-judged" if matched else "no-match"
    )
    if verdict == "no-match" and not notes:
        notes["the run has no figure at the recorded sizes"] = None
    return BaselineComparison(
        baseline.name,
        verdict,
        judged,
        sum(len(found) for _, found in all_found),
        tuple(below),
        tuple(noisy),
        tuple(absent),
        tuple(notes),
        _hint(baseline.name, verdict, noisy, few),
    )


def _few(repeats: int, common: Sequence[tuple[Series, Series]]) -> str:
    """Return what a baseline with one or two repeats cannot judge."""
    said = f"{repeats} of {ENOUGH_REPEATS} repeats recorded"
    small = sum(figure.size_bytes is not None and figure.size_bytes < LARGE_BYTES for figure, _ in common)
    if not small:
        return f"{said}: the allowed drop is {FLOOR_FEW_REPEATS * 100:.0f} %"
    if small == len(common):
        return f"{said}: no size below 1 MiB is judged, and the run has no larger one"
    return f"{said}: the allowed drop is {FLOOR_FEW_REPEATS * 100:.0f} %, and no size below 1 MiB is judged"


def _hint(name: str, verdict: Verdict, noisy: Sequence[tuple[str, Series]], few: int) -> str | None:
    """Return what to do about a run that could not be judged."""
    if verdict == "no-match":
        return (
            f"compare the configurations: clusterctl runs baseline show {name}; to add this one, record a run "
            f"of it: clusterctl runs baseline record {name} --run RUN"
        )
    if verdict != "not-judged":
        return None
    needed = [one.needed for _, one in noisy]
    count = max((one for one in needed if one is not None), default=0)
    if few:
        count = max(count, ENOUGH_REPEATS)
    elif not count:
        return f"even {MOST_REPEATS} repeats are too few for this noise: measure on idle nodes, with a larger --iters"
    return (
        f"record {'more' if few else f'about {count}'} repeats: clusterctl bench ... --repeats {count}, then "
        f"clusterctl runs baseline record {name}"
    )


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
