"""Both ends of a pair measure its rate: what they agree on counts, and where they differ no rate counts.

A rank may report what it likes, but only about pairs that it is in. So a pair whose ends differ says nothing about its
nodes: it is open. A rank that differs from most of its partners, which agree with each other, is the one at fault.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.search import ALPHA
from clusterctl.workloads.locate.verdict import Values

AGREED_WITHIN = 0.1
"""The ends of a pair agree if the lower rate lacks at most this share of the higher one."""

Ends = dict[tuple[Pair, int], tuple[float, float]]
"""The rates of one round in GB/s: of each pair of nodes and place, as the lower node and the higher node report it."""
_Unit = tuple[int, int]
_Key = tuple[Pair, int]


@dataclass(frozen=True, slots=True)
class EndsApart:
    """A pair of nodes whose ends differ in most rounds: their median rates, and the node at fault if it is known."""

    nodes: Pair
    place: int
    gbps: tuple[float, float]
    at_fault: int | None = None


def agreed(ends: Ends) -> Values:
    """Return the rate of each pair whose ends agree: the mean of both, so that one end moves it by little."""
    return {key: sum(both) / 2 for key, both in ends.items() if not _differ(both)}


def _differ(both: tuple[float, float]) -> bool:
    return not min(both) > 0 or min(both) < (1 - AGREED_WITHIN) * max(both)


def apart(rounds: Sequence[Ends], alpha: float = ALPHA) -> tuple[EndsApart, ...]:
    """Return the pairs whose ends differ in most of their rounds, those with a node at fault first."""
    seen: dict[_Key, list[tuple[float, float]]] = {}
    for ends in rounds:
        for key, both in ends.items():
            seen.setdefault(key, []).append(both)
    differing = {key: sum(map(_differ, own)) for key, own in seen.items()}
    bad = [key for key, own in seen.items() if 2 * differing[key] > len(own)]
    met = {key: len(own) for key, own in seen.items()}
    at_fault = _at_fault(met, differing, bad, alpha)
    found = []
    for pair, place in bad:
        low, high = zip(*seen[pair, place], strict=True)
        fault = next((node for node in pair if (node, place) in at_fault), None)
        found.append(EndsApart(pair, place, (statistics.median(low), statistics.median(high)), fault))
    return tuple(sorted(found, key=lambda one: (one.at_fault is None, one.nodes, one.place)))


def _at_fault(
    met: dict[_Key, int], differing: dict[_Key, int], bad: Sequence[_Key], alpha: float
) -> set[_Unit]:
    """Return the units that differ from most of their partners, and more often than chance allows.

    The unit with the most such partners is taken first; its pairs then no longer count against the others.
    """
    found: set[_Unit] = set()
    left, left_bad = dict(met), set(bad)
    while True:
        partners = Counter(unit for key in left for unit in _units(key))
        against = Counter(unit for key in left_bad for unit in _units(key))
        for unit, count in against.most_common():
            if count < 2 or 2 * count <= partners[unit]:
                continue
            own = [key for key in left if unit in _units(key)]
            others = [key for key in left if unit not in _units(key)]
            low, turns = sum(differing[key] for key in own), sum(left[key] for key in own)
            low_rest, rest = sum(differing[key] for key in others), sum(left[key] for key in others)
            if _chance(low, turns, low_rest, rest) <= alpha / len(partners):
                break
        else:
            return found
        found.add(unit)
        left = {key: turns for key, turns in left.items() if unit not in _units(key)}
        left_bad = {key for key in left_bad if key in left}


def _chance(low: int, turns: int, low_rest: int, rest: int) -> float:
    """Return how likely so many differences are if those of all pairs were drawn at random (Fisher's exact test)."""
    both = low + low_rest
    ways = sum(
        math.comb(turns, one) * math.comb(rest, both - one) for one in range(low, min(turns, both) + 1)
    )
    return ways / math.comb(turns + rest, both)


def _units(key: _Key) -> tuple[_Unit, _Unit]:
    (low, high), place = key
    return (low, place), (high, place)
