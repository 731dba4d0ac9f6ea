"""Compared runs: each figure relative to the first run's, and whether the difference exceeds the noise.

The noise comes from the repeats of both runs, or from the timed windows of a training (``clusterctl.results.noise``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clusterctl.benchmarks.key import ABSENT, FIELDS
from clusterctl.documents import measured_runs as documents
from clusterctl.documents.bench import Spread
from clusterctl.documents.kinds import ComparisonWord
from clusterctl.errors import UsageError
from clusterctl.results import noise
from clusterctl.results.noise import Scatter
from clusterctl.results.record import Record
from clusterctl.text.wording import counted

MAX_RUNS = 12
# Programs print times with two decimals.
_ROUNDED_US = 0.005
# The windows of a training that does not report their number: those of Horovod's benchmark.
_WINDOWS = 10


@dataclass(frozen=True, slots=True)
class Figure:
    """One run's figure at one size or number of ranks.

    ``value`` is busbw in GB/s, or samples per second. ``ratio`` is the speed relative to the first run, for collectives
    by time, which is exact while busbw has two decimals; None: the first run has no such figure. ``noise`` is the
    share that a difference must exceed; None: unknown. ``repeats_needed``: how many repeats of both would decide an
    undecided difference.
    """

    value: float | None
    time_us: float | None
    ratio: float | None
    noise: float | None
    word: ComparisonWord | None
    repeats_needed: int | None = None


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One size in bytes, or one number of ranks, with every run's figure; None if a run has no figure there."""

    at: int
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of the key in which the runs differ, with each run's value."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs; ``lines`` are by message size for collectives, by ranks for trainings."""

    kind: Literal["collective", "training"]
    runs: tuple[documents.StoredRun, ...]
    words: tuple[str, ...]
    """What distinguishes each run: the values that differ, otherwise its start and the end of its id."""
    by_values: bool
    """Whether ``words`` are values that differ."""
    repeats: tuple[int, ...]
    variants: tuple[str | None, ...]
    """The name of the compared variant, which is a run's first one; None: the run has one configuration."""
    differences: tuple[Difference, ...]
    unkeyed: tuple[str, ...]
    """Return the runs without a key, whose configuration is unknown."""
    lines: tuple[ComparisonRow, ...]

    @property
    def letters(self) -> tuple[str, ...]:
        """Return the letters of the runs; A is the reference."""
        return tuple(chr(ord("A") + index) for index in range(len(self.runs)))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the runs for legends: letter and words."""
        return tuple(f"{letter} {words}" for letter, words in zip(self.letters, self.words, strict=True))

    @property
    def once(self) -> tuple[str, ...]:
        """Return the letters of the sweeps that were measured once, whose noise is unknown."""
        if self.kind == "training":
            return ()
        return tuple(letter for letter, count in zip(self.letters, self.repeats, strict=True) if count < 2)

    @property
    def undecided(self) -> str:
        """Return a sentence on what would decide the undecided figures; empty if there are none."""
        figures = (one for line in self.lines for one in line.figures if one is not None)
        return noise.what_decides(
            one.repeats_needed for one in figures if one.word is ComparisonWord.UNDECIDED
        )

    @property
    def alike(self) -> bool:
        """Tell whether all runs have the same configuration."""
        return not self.differences and not self.unkeyed


@dataclass(frozen=True, slots=True)
class _Measured:
    value: float | None
    time_us: float | None
    scatter: Scatter | None
    repeats: Spread


def compare(records: Sequence[Record]) -> Comparison:
    """Return the runs compared with the first; UsageError for runs without a common figure."""
    if not 2 <= len(records) <= MAX_RUNS:
        raise UsageError(f"{counted(len(records), 'run')} to compare", hint=f"name 2 to {MAX_RUNS} runs")
    kinds = {record.summary.run: _kind(record) for record in records}
    if len(kinds) < len(records):
        raise UsageError("the same run was named twice", hint="name different runs")
    if len(set(kinds.values())) > 1:
        said = ", ".join(f"{record.summary.run}: {record.summary.benchmark}" for record in records)
        raise UsageError(f"a collective and a training have no figure in common ({said})")
    kind = kinds[records[0].summary.run]
    tables = [_figures(record) for record in records]
    places = sorted({at for table in tables for at in table})
    common = [at for at in places if all(at in table for table in tables)]
    if not common:
        what = "message size" if kind == "collective" else "number of ranks"
        raise UsageError(f"the runs have no {what} in common", hint="measure the same points again")
    differences = _differences([_keys(record, common) for record in records])
    return Comparison(
        kind=kind,
        runs=tuple(record.summary for record in records),
        words=_words(records, differences),
        by_values=bool(_telling(records, differences)),
        repeats=tuple(record.result.repeats for record in records),
        variants=tuple(_variant(record) for record in records),
        differences=differences,
        unkeyed=tuple(record.summary.run for record in records if record.summary.key is None),
        lines=_lines(places, tables),
    )


def _kind(record: Record) -> Literal["collective", "training"]:
    """Return what was measured; UsageError for a run without figures."""
    if any(row.time_us.median for row in record.result.rows):
        return "collective"
    if record.result.points:
        return "training"
    run = record.summary.run
    raise UsageError(f"run {run} has no figures to compare", hint=f"clusterctl runs show {run}")


def _figures(record: Record) -> dict[int, _Measured]:
    """Return the medians of a run's first variant, by size or ranks."""
    result = record.result
    found = {
        row.size_bytes: _Measured(
            None if row.busbw_gbps is None else row.busbw_gbps.median, row.time_us.median,
            noise.scatter_of_repeats(
                row.time_us.cv, result.repeats, _ROUNDED_US / max(row.time_us.median, _ROUNDED_US)
            ),
            row.time_us,
        )
        for row in result.rows
    }  # fmt: skip
    spread = result.proof.spread or {}
    windows = (result.proof.settings or {}).get("windows") or _WINDOWS
    if not isinstance(windows, int):
        raise TypeError(f"windows is {windows!r:.60}, not a whole number")
    for point in result.points:
        speed = point.samples_per_s
        if speed.median:
            scatter = noise.scatter_of_repeats(speed.cv, result.repeats)
            of_windows = _of_windows(spread.get(str(point.np)), point.np, speed.median, windows)
            found[point.np] = _Measured(speed.median, None, scatter or of_windows, speed)
    return found


def _of_windows(spread: float | None, np: int, value: float, windows: int) -> Scatter | None:
    """Return how the windows of one launch vary; ``spread`` is 1.96 sigma of one rank, of the population."""
    if spread is None or windows < 2:
        return None
    # The ranks work in step, so their deviations add up.
    sigma = spread / 1.96 * math.sqrt(windows / (windows - 1)) * np / value
    return Scatter(sigma, windows - 1, 1)


def _lines(places: Sequence[int], tables: Sequence[Mapping[int, _Measured]]) -> tuple[ComparisonRow, ...]:
    reference = tables[0]
    pairs = {
        (at, index): noise.Pair(
            ratio, reference[at].scatter, table[at].scatter,
            noise.do_not_touch(reference[at].repeats, table[at].repeats),
        )
        for index, table in enumerate(tables)
        for at in places
        if index and (ratio := _ratio(reference.get(at), table.get(at))) is not None
    }  # fmt: skip
    judged = dict(zip(pairs, noise.judge(list(pairs.values())), strict=True))

    def figure(at: int, index: int) -> Figure | None:
        one = tables[index].get(at)
        if one is None:
            return None
        if (at, index) not in judged:
            return Figure(one.value, one.time_us, None, None, None)
        found = judged[at, index]
        return Figure(one.value, one.time_us, pairs[at, index].ratio, found.noise, found.word, found.repeats)

    return tuple(ComparisonRow(at, tuple(figure(at, index) for index in range(len(tables)))) for at in places)


def _ratio(first: _Measured | None, other: _Measured | None) -> float | None:
    if first is None or other is None:
        return None
    if other.time_us and first.time_us:
        return first.time_us / other.time_us
    return other.value / first.value if other.time_us is None and other.value and first.value else None


def _keys(record: Record, common: Sequence[int]) -> list[Mapping[str, str]]:
    """Return the keys of the compared figures: for a training, those of the common points."""
    variants = record.result.variants
    keys: Mapping[str, Mapping[str, str]] = variants[0].keys if variants else {}
    if _kind(record) == "collective":
        return list(keys.values())[:1]
    return [keys[str(np)] for np in common if str(np) in keys]


def _differences(keys: Sequence[list[Mapping[str, str]]]) -> tuple[Difference, ...]:
    if not all(keys):
        keys = [key for key in keys if key]
    found = []
    for field in FIELDS:
        values = [" / ".join(dict.fromkeys(key.get(field, ABSENT) for key in of_run)) for of_run in keys]
        if len(set(values)) > 1:
            found.append(Difference(field, tuple(values)))
    return tuple(found)


def _variant(record: Record) -> str | None:
    found = record.result.variants
    return found[0].name if len(found) > 1 else None


def _words(records: Sequence[Record], differences: Sequence[Difference]) -> tuple[str, ...]:
    """Return what distinguishes each run."""
    telling = _telling(records, differences)
    if not telling:
        return tuple(_moment(record.summary) for record in records)
    return tuple(
        ", ".join(_said(one.field, one.values[index]) for one in telling) for index in range(len(records))
    )


def _telling(records: Sequence[Record], differences: Sequence[Difference]) -> list[Difference]:
    """Return at most two differences that name the runs; none if a run lacks their values."""
    telling = [one for one in differences if one.field not in ("library_version", "torch", "environment")][:2]
    return [] if any(len(one.values) < len(records) for one in telling) else telling


def _moment(run: documents.StoredRun) -> str:
    return f"{run.started_at.replace('T', ' ').replace('Z', '')} {run.run.rpartition('-')[2]}"


def _said(field: str, value: str) -> str:
    """Return a value, with its field's name if the value alone is ambiguous."""
    speaks = not value.isdigit() and value not in ("yes", "no", ABSENT) and field != "map_by"
    return value if speaks else f"{field} {value}"


def to_document(found: Comparison) -> dict[str, Any]:
    """Return a comparison as a document; ``comparable`` is false if keys differ or are unknown."""
    collective = found.kind == "collective"
    return documents.ComparisonDocument(
        comparable=found.alike,
        runs=tuple(
            documents.ComparedRun(run=run.run, name=name, repeats=repeats)
            for run, name, repeats in zip(found.runs, found.names, found.repeats, strict=True)
        ),
        differences=tuple(
            documents.Difference(field=one.field, values=one.values) for one in found.differences
        ),
        without_key=found.unkeyed,
        lines=tuple(
            documents.ComparedLine(
                size_bytes=line.at if collective else None,
                np=None if collective else line.at,
                figures=tuple(None if one is None else _figure(one, collective) for one in line.figures),
            )
            for line in found.lines
        ),
    ).document()


def _figure(figure: Figure, collective: bool) -> documents.ComparedFigure:
    return documents.ComparedFigure(
        busbw_gbps=figure.value if collective else None,
        samples_per_s=None if collective else figure.value,
        time_us=figure.time_us,
        ratio=None if figure.ratio is None else round(figure.ratio, 4),
        noise=None if figure.noise is None else round(figure.noise, 4),
        word=figure.word,
        repeats_needed=figure.repeats_needed,
    )
