"""One suspect on trial: its ranks among controls that were measured at the same time, and its status."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterctl.workloads.locate import rank_sum
from clusterctl.workloads.locate.verdict import SuspectState

LOOKS = (1, 2, 4)
"""Multiples of the least number of rounds after which an undecided suspect is judged again."""
NAMED_BELOW, CLEARED_FROM = 0.90, 0.95


@dataclass
class Trial:
    """The ranks and ratios of one suspect so far."""

    ranks: list[int] = field(default_factory=list)
    controls: list[int] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    def record(self, value: float | None, controls: Sequence[float]) -> None:
        """Add one measurement, unless it or its controls are missing."""
        if value is not None and controls:
            self.ranks.append(rank_sum.rank(value, controls))
            self.controls.append(len(controls))
            self.ratios.append(value / statistics.median(controls))

    @property
    def chance(self) -> float:
        """Return how likely ranks as low as these are for a healthy suspect."""
        return rank_sum.tail(sum(self.ranks), self.controls) if self.ranks else 1.0

    @property
    def ratio(self) -> float:
        """Return the median of the suspect's rate over that of its controls."""
        return statistics.median(self.ratios) if self.ratios else 1.0

    def status(self, level: float) -> SuspectState:
        """Return the status for the level of one look."""
        if self.ratio < NAMED_BELOW and self.chance <= level:
            return SuspectState.NAMED
        return SuspectState.CLEARED if self.ratios and self.ratio >= CLEARED_FROM else SuspectState.OPEN
