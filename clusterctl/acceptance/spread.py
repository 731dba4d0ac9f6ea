"""Find the values that are too far from those of equal hardware, with a bound on false alarms.

A value is far if its loss exceeds both a share that matters to an operator and the noise. The noise is the larger one
of two: the recorded spread of the row, and the median absolute deviation of the fleet itself, which a few bad nodes
cannot widen. The factor of the noise grows with the number of values that a run compares, and what is far is measured
again: so at most one of 100 healthy fleets has a false alarm (``benchmarks/accept_false_alarms.py`` simulates it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, median, median_high

FALSE_ALARMS = 0.01
"""The share of healthy fleets in which a run may name a value."""
_SCALE = 1.4826
"""The standard deviation of normal noise, divided by its median absolute deviation."""
_LEAST_FOR_DEVIATION = 8
"""With fewer values, the deviation of the fleet says little: the recorded spread alone decides."""


@dataclass(frozen=True, slots=True)
class FleetMiddle:
    """What a value is compared with: ``middle`` of ``count`` values of so many nodes, and the share that is noise.

    ``of_better``: with two nodes, or two devices of one node, ``middle`` is that of the better one. A majority that
    could tell which of them is unusual is missing, so that a difference is a warning only. The same holds for three
    nodes that were measured in pairs.
    """

    middle: float
    count: int
    noise: float
    of_better: bool = False
    nodes: int = 1

    def loss(self, value: float) -> float:
        """Return how much worse a value is, as a share; negative if it is better."""
        return 1 - value / self.middle

    def is_far(self, value: float, least_loss: float) -> bool:
        """Return whether a value is worse by more than the noise and by more than ``least_loss``."""
        return self.loss(value) > max(least_loss, self.noise)


def fleet_median(values: Mapping[str, Sequence[float]]) -> float:
    """Return the median of values by node: each node counts once, by its own median; a single node by its values."""
    parts = list(values.values())
    return median(parts[0]) if len(parts) == 1 else median(map(median, parts))


def middle_of(
    values: Mapping[str, Sequence[float]], spread: float, compared: int, *, of_pairs: bool = False
) -> FleetMiddle | None:
    """Return the middle of values by node, where more is better. Return None for fewer than two positive values.

    Each node has one voice, whatever number of values it has: its median. ``spread`` is the recorded standard deviation
    of healthy hardware as a share, ``compared`` the number of values that the whole run compares. ``of_pairs``: a slow
    node also lowers the value of the partner that measured with it, so of two voices in the middle the higher counts.
    """
    every = [value for found in values.values() for value in found]
    if len(every) < 2 or min(every) <= 0:
        return None
    nodes = len(values)
    parts = list(values.values()) if nodes > 1 else [[value] for value in every]
    of_better = len(parts) == 2 or (of_pairs and len(parts) == 3)
    used = [max(parts, key=median)] if of_better else parts
    middle = (median_high if of_pairs else median)(map(median, used))
    factor = _factor(max(1, compared))
    noise = factor * spread
    # As many values as the nodes have if each has as many as most.
    count = round(len(used) * median(map(len, used)))
    if count >= _LEAST_FOR_DEVIATION:
        deviation = _SCALE * _deviation(used, middle) / middle
        # The deviation of few values is itself uncertain.
        noise = max(noise, factor * (1 + 12 / count) * deviation)
    return FleetMiddle(middle, len(every), noise, of_better, nodes)


def _deviation(parts: Sequence[Sequence[float]], middle: float) -> float:
    """Return the median over the nodes of the median distance of a node's values from the middle."""
    return median(median(abs(value - middle) for value in part) for part in parts)


@lru_cache(maxsize=256)
def _factor(compared: int) -> float:
    return NormalDist().inv_cdf(1 - FALSE_ALARMS / compared)
