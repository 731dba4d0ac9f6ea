"""Read rank 0's stdout as it arrives: the rows of a perf program, and the windows of a training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clusterctl.benchmarks.perf_output import Layout, Row, is_finite, layout_of, row_of
from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.workloads.records import MARK

_LONGEST = 4096
"""Characters of a line that are kept; longer lines are neither rows nor windows."""
_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Window:
    """Hold one timed window of a training: its number from 1, their total, and the samples/s of rank 0."""

    number: int
    total: int
    samples_per_s: float
    sample: str


@dataclass(frozen=True, slots=True)
class RankStarted:
    """Mark that rank 0 runs: it printed the header of its table, or its first record."""


class LiveOutput:
    """Take text in pieces of any length, and return what the complete lines in it report."""

    def __init__(self) -> None:
        self._rest = ""
        self._layout: Layout | None = None

    def read(self, text: str) -> list[Row | Window | RankStarted]:
        """Return the rows and windows of the lines that this text completes; other lines are ignored."""
        *lines, rest = (self._rest + text).split("\n")
        self._rest = rest[: _LONGEST + 1]
        return [found for line in lines if len(line) <= _LONGEST for found in self._of_line(line)]

    def _of_line(self, line: str) -> Iterator[Row | Window | RankStarted]:
        if MARK in line:
            yield from _of_record(line.partition(MARK)[2])
        elif (layout := layout_of(line)) is not None:
            self._layout = layout
            yield RankStarted()
        elif self._layout is not None and (row := row_of(self._layout, line)) is not None and is_finite(row):
            yield row


def _of_record(text: str) -> Iterator[Window | RankStarted]:
    try:
        record = json_value(text)
    except NotUnderstood:
        return
    if not isinstance(record, dict) or record.get("rank") != 0:
        return
    if record.get("kind") == "start":
        yield RankStarted()
    number, total, rate = (record.get(name) for name in ("number", "windows", "samples_per_s"))
    if (
        record.get("kind") == "window"
        and type(number) is int
        and type(total) is int
        and isinstance(rate, int | float)
        and 0 < number <= total <= _MOST
        and 0 <= rate <= _MOST
    ):
        yield Window(
            number, total, float(rate), "sequence" if record.get("sample") == "sequence" else "image"
        )
