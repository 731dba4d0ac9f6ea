"""Show a running benchmark on the terminal: its rows or windows as rank 0 prints them, and the time that is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from clusterctl.benchmarks.live_output import LiveOutput, RankStarted, Window
from clusterctl.benchmarks.perf_output import Half, Row
from clusterctl.cli import console
from clusterctl.cli.terminal.elapsed import spoken as spoken_time
from clusterctl.cli.terminal.live_area import AREA
from clusterctl.cli.terminal.progress import Progress, show_live
from clusterctl.launch.viewer import Step, Turn, Viewer
from clusterctl.launch.viewer import spoken as spoken_turn
from clusterctl.text.visible import visible
from clusterctl.text.wording import counted

_WIDE_HALVES = "     time   algbw   busbw  #wrong"
_HEAD = "        size         count      type   redop    root" + 2 * _WIDE_HALVES
_TAIL, _TAIL_LINES = 8192, 8
"""The characters and lines of a user's program that stay on the screen."""
_QUIET_S = 10.0
"""The silence of all ranks of a user's program that is shown."""
_SHORT_HEAD = f"{'size':>12}  {'type':>8}  {'redop':>5}     time us  algbw  busbw  #wrong"


class LiveRun(Viewer):
    """Follow a run on stderr: live lines on a terminal, and one line for each finished launch; a context manager.

    ``launches`` is how many launches the run has, if that is known before the first one.
    """

    def __init__(self, launches: int | None = None) -> None:
        self._lock = threading.Lock()
        self._launches = launches
        self._probe: Progress | None = None
        self._step: Step | None = None
        self._began = 0.0
        self._output = LiveOutput()
        self._state = ""
        self._rows: list[Row] = []
        self._windows: list[Window] = []
        self._tail = ""
        self._quiet_s = 0.0
        self._took: list[float] = []
        """How long each finished launch took, in seconds."""
        self.reached = ""
        """How far the launch came that did not succeed."""

    def __enter__(self) -> LiveRun:
        show_live(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        AREA.remove(self)
        self._end_probe(kind, error, trace)

    def probing(self, nodes: Sequence[str]) -> None:
        """Show which nodes have not answered yet."""
        self._end_probe()
        self._probe = Progress("Probing", total=len(nodes), unit="node" + ("s" if len(nodes) != 1 else ""))
        self._probe.__enter__()
        for node in nodes:
            self._probe.start(node)

    def probed(self, node: str) -> None:
        """Count one node that answered."""
        if self._probe is None:
            return
        self._probe.advance(node)
        if not self._probe.awaited:
            self._end_probe()

    def meshing(self, nodes: int) -> None:
        """Show that SSH between the nodes is tested."""
        self._end_probe()
        with self._lock:
            self._began, self._state = time.monotonic(), f"Testing SSH between {nodes} nodes"

    def starting(self, step: Step) -> None:
        """Show a launch from now on."""
        self._end_probe()
        with self._lock:
            self._step, self._began, self._output = step, time.monotonic(), LiveOutput()
            self._state = "starting ranks"
            self._rows, self._windows, self._tail, self._quiet_s = [], [], "", 0.0

    def said(self, text: str) -> None:
        """Show what rank 0 printed, if it is a row or a window."""
        with self._lock:
            if self._step is None:
                return
            if self._step.program:
                self._state = "ranks are running"
                self._tail = (self._tail + text)[-_TAIL:]
                return
            for found in self._output.read(text):
                if isinstance(found, RankStarted):
                    self._state = "warming up" if self._step.training else "ranks are running"
                elif isinstance(found, Window):
                    self._windows.append(found)
                else:
                    self._rows.append(found)

    def quiet(self, seconds: float) -> None:
        """Show a long silence of all ranks of a user's program."""
        with self._lock:
            self._quiet_s = seconds

    def noted(self, text: str) -> None:
        """Leave a line about ranks that write nothing."""
        console.talk(f"note: {visible(text)}")

    def ended(self, *, succeeded: bool) -> None:
        """Leave one line for a launch that succeeded; the report of the run has the failures."""
        with self._lock:
            step, duration_s = self._step, time.monotonic() - self._began
            if step is not None and not succeeded:
                at = _progress(step, self._state, self._rows, self._windows)
                self.reached = f"{step.benchmark} with {_ranks(step)}: {at}"
            self._step, self._state = None, ""
            self._took.append(duration_s)
        if step is not None and succeeded:
            console.talk(f"{_finished(step)} in {spoken_time(duration_s)}")

    def lines(self, width: int, height: int) -> list[str]:
        """Return the live lines."""
        with self._lock:
            step, state, elapsed = self._step, self._state, time.monotonic() - self._began
            rows, windows, tail, quiet_s = list(self._rows), list(self._windows), self._tail, self._quiet_s
            left = self._time_left(elapsed)
        if step is None:
            return [_cut(f"{state}: {spoken_time(elapsed, tenths=False)}", width)] if state else []
        parts = [_progress(step, state, rows, windows)]
        parts.append(
            f"{spoken_time(elapsed, tenths=False)} of at most {spoken_time(step.timeout_s, tenths=False)}"
        )
        if quiet_s >= _QUIET_S:
            parts.append(f"no output for {spoken_time(quiet_s, tenths=False)}")
        if left is not None:
            parts.append(f"about {spoken_time(left, tenths=False)} left")
        name = visible(step.benchmark)
        place = ", ".join([_ranks(step), *_turn(step.turn)])
        head, state = f"{name} ({place}):", ", ".join(parts)
        first = [f"{head} {state}"] if len(head) + len(state) < width else [head, f"    {state}"]
        shown = [_cut(line, width) for line in first[:height]]
        return [*shown, *_table(rows, width, height - len(first)), *_last(tail, width, height - len(first))]

    def _time_left(self, elapsed: float) -> float | None:
        """Return an estimate of the remaining seconds of the run; None if too little is known."""
        done = self._windows[-1] if self._windows else None
        own = None
        if done is not None and done.number > 1:
            own = elapsed / done.number * (done.total - done.number)
        if self._launches is None or not self._took or self._launches <= 1:
            return own
        mean = sum(self._took) / len(self._took)
        others = max(0, self._launches - len(self._took) - 1) * mean
        return others + (max(0.0, mean - elapsed) if own is None else own)

    def _end_probe(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.__exit__(kind, error, trace)


def _last(tail: str, width: int, height: int) -> list[str]:
    """Return the last lines that rank 0 of a user's program wrote."""
    lines = [visible(line) for line in tail.splitlines() if line.strip()]
    return (
        [_cut(f"  {line}", width) for line in lines[-min(_TAIL_LINES, max(0, height)) :]]
        if height > 0
        else []
    )


def _ranks(step: Step) -> str:
    ranks = f"{counted(step.np, 'rank')}"
    return f"{ranks}, point {step.point} of {step.points}" if step.points > 1 else ranks


def _turn(turn: Turn) -> list[str]:
    parts = []
    if turn.variants > 1:
        parts.append(f"variant {visible(turn.variant)} ({turn.variant_number} of {turn.variants})")
    if turn.repeats > 1:
        parts.append(f"repeat {turn.repeat} of {turn.repeats}")
    return parts


def _finished(step: Step) -> str:
    verb = "Trained" if step.training else "Ran" if step.program else "Measured"
    nodes = f"{counted(step.nodes, 'node')}"
    ranks = f"{counted(step.np, 'rank')} on {nodes} through {step.launcher}"
    more = [f"point {step.point} of {step.points}"] if step.points > 1 else []
    more += [spoken_turn(step.turn)] if spoken_turn(step.turn) else []
    return f"{verb} {step.benchmark} with {ranks}" + (f" ({', '.join(more)})" if more else "")


def _progress(step: Step, state: str, rows: Sequence[Row], windows: Sequence[Window]) -> str:
    if step.total is not None and rows:
        return f"{len(rows)} of {step.total} sizes"
    if windows:
        last = windows[-1]
        mean = sum(window.samples_per_s for window in windows) / len(windows)
        return f"window {last.number} of {last.total}, {mean * step.np:.1f} {last.sample}s/s so far"
    return state


def _table(rows: Sequence[Row], width: int, height: int) -> list[str]:
    """Return the last rows below a header, in nccl-tests' columns if the terminal is wide enough."""
    if not rows or height < 2:
        return []
    shown = rows[-(height - 1) :]
    wide = [_HEAD, *map(_wide, shown)]
    # Large figures widen a row of nccl-tests' columns beyond its header.
    lines = wide if max(map(len, wide)) <= width else [_SHORT_HEAD, *map(_short, shown)]
    return [_cut(line, width) for line in lines]


def _wide(row: Row) -> str:
    root = -1 if row.root is None else row.root
    words = f"{row.size_bytes:12d}  {row.count:12d}  {_word(row.dtype):>8}  {_word(row.redop):>6}  {root:>6d}"
    return words + _half(row.out_of_place) + _half(row.in_place)


def _half(half: Half) -> str:
    figures = (half.time_us, 7), (half.algbw_gbps, 6), (half.busbw_gbps, 6)
    cells = [f"{'N/A' if value is None else f'{value:.2f}':>{width}}" for value, width in figures]
    return "  " + "  ".join([*cells, f"{'N/A' if half.wrong is None else half.wrong:>6}"])


def _short(row: Row) -> str:
    half = row.out_of_place if row.out_of_place.time_us is not None else row.in_place
    time_us, algbw, busbw = (
        f"{'N/A' if value is None else f'{value:.2f}'}"
        for value in (half.time_us, half.algbw_gbps, half.busbw_gbps)
    )
    wrong = "N/A" if half.wrong is None else half.wrong
    return (
        f"{row.size_bytes:12d}  {_word(row.dtype):>8}  {_word(row.redop):>5}  {time_us:>10} {algbw:>6} {busbw:>6}"
        f"  {wrong:>6}"
    )


def _word(text: str | None) -> str:
    return visible((text or "-")[:12])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 3)].rstrip() + "..."[:width]
