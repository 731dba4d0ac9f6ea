"""The exact test behind a confirmed name: how low a unit ranks among controls that were measured at the same time.

If the unit is as good as its c controls, its rank among the c + 1 values is equally likely to be 1, 2, ... c + 1,
whatever the distribution of the values. The ranks of independent rounds add up; their distribution is the convolution
of uniform ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def rank(value: float, controls: Sequence[float]) -> int:
    """Return the rank of a value among its controls, 1 for the lowest; an equal control counts as lower."""
    return 1 + sum(control <= value for control in controls)


def tail(total: int, controls: Sequence[int]) -> float:
    """Return the chance that a good unit's ranks add up to ``total`` or less; ``controls``: their number per round."""
    chances = [1.0]
    """By sum of ranks, counted from the lowest possible one."""
    for number in controls:
        # Each sum gets the chances of the number + 1 sums up to it: a difference of running totals.
        totals = list(accumulate([*chances, *[0.0] * number], initial=0.0))
        chances = [
            (totals[at + 1] - totals[max(0, at - number)]) / (number + 1) for at in range(len(totals) - 1)
        ]
    return min(1.0, sum(chances[: max(0, total - len(controls) + 1)]))


def least_rounds(controls: int, level: float) -> int:
    """Return how many rounds a unit that is the lowest in each of them needs to reach the level."""
    needed, chance = 1, 1 / (controls + 1)
    while chance > level:
        needed, chance = needed + 1, chance / (controls + 1)
    return needed
