"""Ranks that are slower than their peers by more than the peers' own variation.

The measure is the median absolute deviation, which one bad rank cannot distort like a standard deviation
(Leys et al., Journal of Experimental Social Psychology 49, 2013). In data-parallel training ranks wait for each other
in every step, so a slow GPU lowers all rates, and the rate of the rank with the slow GPU most.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterctl.benchmarks.training import TrainingRun
from clusterctl.documents.proof import SlowRank

# 1.4826 makes the deviation comparable to a standard deviation; beyond 3.5 of them is the usual outlier.
_SCALE = 1.4826
_CUT = 3.5
# Ranks with nearly equal rates have a tiny deviation, so a smaller loss is not significant.
LEAST_LOSS = 0.03
_LEAST_RANKS = 3


@dataclass(frozen=True, slots=True)
class Straggler:
    """One slow rank, its rate, the median of all, and the distance in scaled deviations (None: others equal)."""

    rank: int
    host: str | None
    rate: float
    median: float
    deviations: float | None

    @property
    def loss(self) -> float:
        """Return the loss as a share of the median."""
        return 1 - self.rate / self.median

    def part(self) -> SlowRank:
        """Return it as an entry of ``proof.stragglers``; its rates are samples per second."""
        return SlowRank(
            rank=self.rank,
            host=self.host,
            samples_per_s=round(self.rate, 3),
            median_samples_per_s=round(self.median, 3),
            loss=round(self.loss, 4),
        )


def rates_of(run: TrainingRun) -> dict[int, tuple[str | None, float]]:
    """Return every rank's host and images (or sequences) per second."""
    hosts: Mapping[int, str] = {rank.rank: rank.host for rank in run.ranks}
    return {rate.rank: (hosts.get(rate.rank), rate.samples_per_s) for rate in run.rates}


def find(
    rates: Mapping[int, tuple[str | None, float]], least_loss: float = LEAST_LOSS
) -> tuple[Straggler, ...]:
    """Return the ranks that are slow outliers, slowest first; empty for fewer than three ranks.

    ``least_loss`` is the smallest loss that is reported, as a share of the median.
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
