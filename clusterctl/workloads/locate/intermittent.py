"""Name a unit that is slow in some rounds only: ``locate --for`` repeats rounds of random pairs for a while.

A round in which a unit's pair is low counts against both of its nodes. Partners are random, so a healthy unit has a low
round as often as the rest of the fleet; one that is slow in a third of its rounds has more than a binomial count of
that share allows. Source of the bound: the exact upper tail of the binomial distribution, divided by the number of
units. Disturbances of a healthy fleet come in bursts, so the share is never taken below 5 %, and a fifth of a unit's
rounds must be low.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from clusterctl.workloads.locate import rounds
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.search import ALPHA, LOOSE_CUT
from clusterctl.workloads.locate.verdict import Values

_LEAST_SHARE = 0.05
_NAMED_FROM = 0.2


@dataclass(frozen=True, slots=True)
class Intermittent:
    """One unit: its low rounds, the share of low rounds in the rest of the fleet, and the chance of so many."""

    node: int
    place: int
    low: int
    rounds: int
    fleet_share: float
    chance: float


def plan(nodes: int, seed: int) -> list[Pair]:
    """Return random pairs of all nodes for the round with this number."""
    return rounds.among(range(nodes), random.Random(f"locate-{seed}"))


def judge(measured: Sequence[Values], alpha: float = ALPHA) -> tuple[Intermittent, ...]:
    """Return the units that are low more often than the rest of the fleet, the most frequent first."""
    medians = {
        place: statistics.median(
            rate for values in measured for (_, at), rate in values.items() if at == place
        )
        for place in {place for values in measured for _, place in values}
    }
    low: dict[tuple[int, int], int] = {}
    turns: dict[tuple[int, int], int] = {}
    for values in measured:
        for (pair, place), rate in values.items():
            for node in pair:
                turns[node, place] = turns.get((node, place), 0) + 1
                low[node, place] = low.get((node, place), 0) + (rate < (1 - LOOSE_CUT) * medians[place])
    all_low, all_turns, found = sum(low.values()), sum(turns.values()), []
    for unit, count in turns.items():
        share = max(_LEAST_SHARE, (all_low - low[unit]) / max(1, all_turns - count))
        chance = _tail(low[unit], count, share)
        if low[unit] >= _NAMED_FROM * count and chance <= alpha / len(turns):
            found.append(Intermittent(*unit, low[unit], count, share, chance))
    return tuple(sorted(found, key=lambda one: -one.low / one.rounds))


def _tail(low: int, rounds_: int, share: float) -> float:
    """Return the chance of this many low rounds or more."""
    if share >= 1:
        return 1.0
    logs = (
        math.lgamma(rounds_ + 1) - math.lgamma(k + 1) - math.lgamma(rounds_ - k + 1)
        + k * math.log(share) + (rounds_ - k) * math.log1p(-share)
        for k in range(low, rounds_ + 1)
    )  # fmt: skip
    return min(1.0, sum(math.exp(log) for log in logs))
