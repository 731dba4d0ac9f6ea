"""Time work on a device: by CUDA events on a GPU, by the clock of the process on a CPU."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

_MOST_CALLS = 10_000


@dataclass(frozen=True)
class Effort:
    """How long each work is measured: seconds of warm-up, repeats, and seconds of each repeat.

    The device idles for ``pause_s`` before each repeat. Without a pause the repeats follow each other at once.
    """

    warmup_s: float
    repeats: int
    repeat_s: float
    pause_s: float = 0.0


GPU_EFFORT = Effort(0.2, 15, 0.02)
# Half a second of matrix products reaches the power limit of a GPU, which then lowers its clocks: an H200 computes
# 796 TFLOP/s after a pause and 655 under a lasting load. Short bursts show what it reaches; the row gpu-load the rest.
GPU_BURSTS = Effort(0.03, 7, 0.015, 0.12)
CPU_EFFORT = Effort(0.01, 3, 0.01)


def settle(device: torch.device) -> None:
    """Wait until the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def median_s(device: torch.device, work: Callable[[], object], effort: Effort) -> float:
    """Return the seconds of one call: the median of the repeats, each a row of calls after a warm-up."""
    started, calls = time.perf_counter(), 0
    while calls == 0 or (time.perf_counter() - started < effort.warmup_s and calls < _MOST_CALLS):
        work()
        settle(device)
        calls += 1
    each_s = (time.perf_counter() - started) / calls
    row = max(1, min(_MOST_CALLS, math.ceil(effort.repeat_s / each_s)))
    if device.type == "cuda":
        bursts, length = (effort.repeats, 1) if effort.pause_s else (1, effort.repeats)
        times: list[float] = []
        for _ in range(bursts):
            time.sleep(effort.pause_s)
            times += _by_events(device, work, length, row)
        return statistics.median(times)
    return statistics.median(_by_clock(work, row) for _ in range(effort.repeats))


def _by_events(device: torch.device, work: Callable[[], object], repeats: int, row: int) -> list[float]:
    # All repeats are queued before the first is waited for, so that the device does not idle between them.
    stream = torch.cuda.current_stream(device)
    marks = [timing_event() for _ in range(repeats + 1)]
    work()  # the first one after a pause also starts the device
    marks[0].record(stream)
    for mark in marks[1:]:
        for _ in range(row):
            work()
        mark.record(stream)
    settle(device)
    return [before.elapsed_time(after) / 1e3 / row for before, after in itertools.pairwise(marks)]


def _by_clock(work: Callable[[], object], row: int) -> float:
    started = time.perf_counter()
    for _ in range(row):
        work()
    return (time.perf_counter() - started) / row


def timing_event() -> torch.cuda.Event:
    """Return an event that keeps its time."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
