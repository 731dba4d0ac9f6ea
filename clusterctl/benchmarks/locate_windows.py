"""Windows in which ranks were slower than in their own best one: of ``locate``, every rank alone.

A rank that is slow in all windows is the judge's (``workloads/locate/alone.py``). One that is slow in some of them had
company on its device, or was throttled meanwhile; its rates of the other windows are those that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterctl.workloads.locate.alone import Window

LOW = 0.85
"""A window below this share of the rank's best one is marked: clocks alone differ by a few percent."""


@dataclass(frozen=True, slots=True)
class LowWindow:
    """One window and measure, the ranks that were slow in it, and the lowest share of a rank's own best window."""

    window: int
    measure: str
    ranks: tuple[int, ...]
    ratio: float


def low_windows(windows: Sequence[Window]) -> tuple[LowWindow, ...]:
    """Return the low windows in order; the first has number 1."""
    best: Window = {}
    for window in windows:
        for key, rate in window.items():
            best[key] = max(rate, best.get(key, 0.0))
    found = []
    for number, window in enumerate(windows, 1):
        shares = {key: rate / best[key] for key, rate in window.items() if best[key] > 0}
        low = {key: share for key, share in shares.items() if share < LOW}
        for measure in sorted({measure for measure, _ in low}):
            of_measure = {rank: share for (one, rank), share in low.items() if one == measure}
            found.append(LowWindow(number, measure, tuple(sorted(of_measure)), min(of_measure.values())))
    return tuple(found)
