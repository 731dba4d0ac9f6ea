"""Compared runs: each figure relative to the first run's, and whether the difference exceeds the noise.

The noise of repeated figures is 1.96 sigma over the repeats, or over the timed windows of a training. The noise of a
sweep that ran once is unknown; a difference below ``NOISE_OF_ONE`` is then reported as noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from clusterctl.benchmarks.key import ABSENT, FIELDS
from clusterctl.errors import UsageError
from clusterctl.results.record import Record, Summary

NOISE_OF_ONE = 0.05
"""The share by which two single measurements of the same configuration may differ."""
MAX_RUNS = 12


class Word(str, Enum):
    """The meaning of a ratio."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "within noise"


@dataclass(frozen=True, slots=True)
class Figure:
    """One run's figure at one size or number of ranks.

    ``value`` is busbw in GB/s, or samples per second. ``ratio`` is the speed relative to the first run, for collectives
    by time, which is exact while busbw has two decimals; None: the first run has no such figure. ``noise`` is the
    uncertainty of the ratio as a share.
    """

    value: float | None
    time_us: float | None
    ratio: float | None
    noise: float | None
    word: Word | None


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
    runs: tuple[Summary, ...]
    names: tuple[str, ...]
    differences: tuple[Difference, ...]
    unkeyed: tuple[str, ...]
    """Return the runs without a key, whose configuration is unknown."""
    lines: tuple[ComparisonRow, ...]

    @property
    def alike(self) -> bool:
        """Tell whether all runs have the same configuration."""
        return not self.differences and not self.unkeyed


@dataclass(frozen=True, slots=True)
class _Measured:
    value: float | None
    time_us: float | None
    noise: float | None


def compare(records: Sequence[Record]) -> Comparison:
    """Return the runs compared with the first; UsageError for runs without a common figure."""
    if not 2 <= len(records) <= MAX_RUNS:
        raise UsageError(f"{len(records)} run(s) to compare", hint=f"name 2 to {MAX_RUNS} runs")
    kinds = {record.summary.run: _kind(record) for record in records}
    for run, kind in kinds.items():
        if kind is None:
            raise UsageError(f"run {run} has no figures to compare", hint=f"clusterctl results show {run}")
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
        kind="training" if kind == "training" else "collective",
        runs=tuple(record.summary for record in records),
        names=_names(records, differences),
        differences=differences,
        unkeyed=tuple(record.summary.run for record in records if record.summary.key is None),
        lines=tuple(_line(at, [table.get(at) for table in tables]) for at in places),
    )


def _kind(record: Record) -> str | None:
    if any(row.get("time_us") for row in record.document.get("rows") or ()):
        return "collective"
    return "training" if record.document.get("points") else None


def _figures(record: Record) -> dict[int, _Measured]:
    document = record.document
    varies = _of_repeats(document)
    found = {
        int(row["size_bytes"]): _Measured(
            row.get("busbw_gbps"), row.get("time_us"), varies.get(int(row["size_bytes"]))
        )
        for row in document.get("rows") or ()
    }
    spread = (document.get("proof") or {}).get("spread") or {}
    for point in document.get("points") or ():
        np, value = int(point["np"]), point.get("images_per_s") or point.get("sequences_per_s")
        if value:
            off = spread.get(str(np))
            noise = None if off is None else off * np / value
            found[np] = _Measured(float(value), None, varies.get(np, noise))
    return found


def _of_repeats(document: Mapping[str, Any]) -> dict[int, float]:
    """Return the noise of figures that were repeated, by size or ranks: 1.96 times how they vary.

    The figures of a run with variants are the medians of its first variant.
    """
    first: Mapping[str, Any] = next(iter(document.get("variants") or ()), {})
    figures = [(row["size_bytes"], row["time_us"]) for row in first.get("rows") or ()]
    figures += [(point["np"], point["samples_per_s"]) for point in first.get("points") or ()]
    return {int(at): 1.96 * spread["cv"] for at, spread in figures if spread.get("cv") is not None}


def _line(at: int, measured: Sequence[_Measured | None]) -> ComparisonRow:
    first = measured[0]
    return ComparisonRow(
        at, tuple(None if one is None else _figure(one, first, one is first) for one in measured)
    )


def _figure(one: _Measured, first: _Measured | None, is_first: bool) -> Figure:
    ratio = None
    if first is not None and not is_first:
        if one.time_us and first.time_us:
            ratio = first.time_us / one.time_us
        elif one.time_us is None and one.value and first.value:
            ratio = one.value / first.value
    if ratio is None or first is None:
        return Figure(one.value, one.time_us, None, one.noise, None)
    known = one.noise is not None and first.noise is not None
    noise = math.hypot(one.noise or 0.0, first.noise or 0.0) if known else NOISE_OF_ONE
    word = Word.SAME if abs(ratio - 1) <= noise else Word.FASTER if ratio > 1 else Word.SLOWER
    return Figure(one.value, one.time_us, ratio, noise, word)


def _keys(record: Record, common: Sequence[int]) -> list[Mapping[str, str]]:
    """Return the keys of the compared figures: for a training, those of the common points."""
    keys: dict[str, Any] = (record.document.get("proof") or {}).get("keys") or {}
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


def _names(records: Sequence[Record], differences: Sequence[Difference]) -> tuple[str, ...]:
    """Return a short name for each run: a letter and the values that distinguish it."""
    letters = [chr(ord("A") + index) for index in range(len(records))]
    telling = [one for one in differences if one.field not in ("library_version", "torch", "environment")][:2]
    if not telling or any(len(one.values) < len(records) for one in telling):
        return tuple(
            f"{letter} {record.summary.started_at[:16].replace('T', ' ')}"
            for letter, record in zip(letters, records, strict=True)
        )
    said = [
        ", ".join(_said(one.field, one.values[index]) for one in telling) for index in range(len(records))
    ]
    return tuple(f"{letter} {words}" for letter, words in zip(letters, said, strict=True))


def _said(field: str, value: str) -> str:
    """Return a value, with its field's name if the value alone is ambiguous."""
    speaks = not value.isdigit() and value not in ("yes", "no", ABSENT) and field != "map_by"
    return value if speaks else f"{field} {value}"
