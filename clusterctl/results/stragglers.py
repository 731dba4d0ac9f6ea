"""Ranks that are slower than their peers by more than their peers differ among themselves.

The measure is the median absolute deviation, which one bad rank cannot move as it moves a standard deviation
(Leys et al., Journal of Experimental Social Psychology 49, 2013). In data-parallel training ranks wait for each other
in every step, so that a slow GPU shows in all rates; the one whose own compute is slow shows first.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterctl.benchmarks.training import TrainingRun

# 1.4826 makes the deviation comparable to a standard deviation; beyond 3.5 of them is the usual outlier.
_SCALE = 1.4826
_CUT = 3.5
# Ranks that hardly differ have a deviation near nothing: what is slower by less than this is no straggler.
LEAST_LOSS = 0.03
_LEAST_RANKS = 3


@dataclass(frozen=True, slots=True)
class Straggler:
    """One slow rank, its rate, the median of all, and how many scaled deviations lie between (None: others equal)."""

    rank: int
    host: str | None
    rate: float
    median: float
    deviations: float | None

    @property
    def loss(self) -> float:
        """The share of the median that is missing."""
        return 1 - self.rate / self.median

    def document(self) -> dict[str, Any]:
        """Return it as an entry of ``proof.stragglers``."""
        return {
            "rank": self.rank,
            "host": self.host,
            "samples_per_s": round(self.rate, 3),
            "median_samples_per_s": round(self.median, 3),
            "loss": round(self.loss, 4),
        }


def rates_of(run: TrainingRun) -> dict[int, tuple[str | None, float]]:
    """Return every rank's host and images (or sequences) per second."""
    hosts: Mapping[int, str] = {rank.rank: rank.host for rank in run.ranks}
    return {rate.rank: (hosts.get(rate.rank), rate.samples_per_s) for rate in run.rates}


def find(
    rates: Mapping[int, tuple[str | None, float]], least_loss: float = LEAST_LOSS
) -> tuple[Straggler, ...]:
    """Return the ranks that are outliers below, slowest first; nothing for fewer than three ranks.

    ``least_loss`` is the share of the median that must be missing at least.
    """
    if len(rates) < _LEAST_RANKS:
        return ()
    values: Sequence[float] = [rate for _, rate in rates.values()]
    median = statistics.median(values)
    if median <= 0:
        return ()
    deviation = _SCALE * statistics.median(abs(value - median) for value in values)
    found = [
        Straggler(rank, host, rate, median, (median - rate) / deviation if deviation > 0 else None)
        for rank, (host, rate) in rates.items()
        if median - rate > max(_CUT * deviation, least_loss * median)
    ]
    return tuple(sorted(found, key=lambda straggler: straggler.rate))
