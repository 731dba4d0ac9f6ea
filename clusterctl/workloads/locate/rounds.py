"""Which nodes meet in which round: every node meets different partners, and is in at most one pair of a round."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

Pair = tuple[int, int]
"""Two nodes, the lower index first."""

LEAST_ROUNDS = 8
"""A good node is misjudged only if all its partners are bad: with q of the fleet bad, the chance is q^rounds."""
_SMALL = 16
"""Up to so many nodes, each meets every other one before a pair repeats."""


def pair(one: int, other: int) -> Pair:
    """Return the two nodes in the order of their indices."""
    return (one, other) if one < other else (other, one)


def count(nodes: int) -> int:
    """Return the number of rounds for a fleet: 8, or log2 of the number of nodes if that is larger."""
    return max(LEAST_ROUNDS, (nodes - 1).bit_length())


def rounds(nodes: int) -> list[list[Pair]]:
    """Return the rounds for nodes 0 to ``nodes`` - 1, sorted by place in the network.

    Beyond 16 nodes, the partner in round r is at distance 2^r (index XOR 2^r), so that a slow round shows a slow
    boundary between groups of 2^r nodes.
    """
    if nodes < 2:
        return []
    if nodes <= _SMALL:
        once = _tournament(nodes)
        return [once[index % len(once)] for index in range(count(nodes))]
    met: list[set[int]] = [set() for _ in range(nodes)]
    planned = []
    bits = (nodes - 1).bit_length()
    for index in range(count(nodes)):
        # After the powers of two: masks of two bits, for partners that a node has not met.
        mask = 1 << index if index < bits else 3 << (index - bits)
        found = [pair(node, node ^ mask) for node in range(nodes) if node < node ^ mask < nodes]
        left = sorted(set(range(nodes)) - {node for one in found for node in one})
        found = _with_others(found, left, met)
        for low, high in found:
            met[low].add(high)
            met[high].add(low)
        planned.append(found)
    return planned


def distance_bits(nodes: int) -> int:
    """Return how many of the first rounds pair nodes at distance 2^round; 0 for a small fleet."""
    return 0 if nodes <= _SMALL else (nodes - 1).bit_length()


def _tournament(nodes: int) -> list[list[Pair]]:
    """Return a round robin by the circle method; in an odd fleet one node pauses in each round."""
    size = nodes + nodes % 2
    circle = list(range(1, size))
    planned = []
    for _ in range(size - 1):
        order = [0, *circle]
        found = [pair(order[index], order[size - 1 - index]) for index in range(size // 2)]
        planned.append([one for one in found if one[1] < nodes])
        circle = [circle[-1], *circle[:-1]]
    return planned


def _with_others(found: list[Pair], left: Sequence[int], met: Sequence[Collection[int]]) -> list[Pair]:
    """Pair the nodes that are left with ones that they have not met, if need be out of pairs that are found already."""
    waiting = sorted(left, key=lambda node: len(met[node]))
    pairs = list(found)
    while len(waiting) > 1:
        node = waiting.pop(0)
        other = next((one for one in waiting if one not in met[node]), None)
        if other is not None:
            waiting.remove(other)
            pairs.append(pair(node, other))
            continue
        other = waiting.pop(0)
        at = next(
            (at for at, (low, high) in enumerate(pairs) if low not in met[node] and high not in met[other]),
            None,
        )
        if at is None:
            pairs.append(pair(node, other))
        else:
            low, high = pairs.pop(at)
            pairs += [pair(node, low), pair(other, high)]
    for node in waiting:  # the last of an odd number: the one that met most pauses in its place
        busiest = max(
            ((low, high) for one in pairs for low, high in (one, one[::-1]) if low not in met[node]),
            key=lambda one: len(met[one[1]]),
            default=None,
        )
        if busiest is not None and len(met[busiest[1]]) > len(met[node]):
            pairs.remove(pair(*busiest))
            pairs.append(pair(node, busiest[0]))
    return pairs


def matchings(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Distribute pairs over as few rounds as a greedy choice needs, each node once per round."""
    planned: list[tuple[set[int], list[Pair]]] = []
    for one in pairs:
        free = next((found for found in planned if found[0].isdisjoint(one)), None)
        if free is None:
            free = (set(), [])
            planned.append(free)
        free[0].update(one)
        free[1].append(one)
    return [found for _, found in planned]


def among(nodes: Sequence[int], chance: random.Random, without: Collection[Pair] = ()) -> list[Pair]:
    """Return random disjoint pairs of the nodes, none of them in ``without``; a node may be left over."""
    waiting, found = list(nodes), []
    chance.shuffle(waiting)
    while len(waiting) > 1:
        node = waiting.pop()
        other = next((one for one in reversed(waiting) if pair(node, one) not in without), None)
        if other is not None:
            waiting.remove(other)
            found.append(pair(node, other))
    return found
