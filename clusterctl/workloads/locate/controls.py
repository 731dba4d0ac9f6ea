"""Control pairs: healthy nodes that are measured in the same round as a suspect."""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from clusterctl.workloads.locate import rounds
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.verdict import Values

MOST_CONTROLS = 64


@dataclass
class MeasuredBeside:
    """Rates of pairs, and of the control pairs beside them."""

    values: Values
    control_pairs: Sequence[Pair]
    rounds: int

    def controls(self, place: int) -> list[float]:
        return [self.values[pair, place] for pair in self.control_pairs if (pair, place) in self.values]


def beside(
    pairs: Sequence[Pair], well: Sequence[int], links: frozenset[Pair], chance: random.Random
) -> Generator[list[Pair], Values, MeasuredBeside]:
    """Measure disjoint pairs beside control pairs of healthy nodes.

    With too few nodes, the controls follow in a round of their own. Pairs in ``links`` are not controls.
    """
    busy = {node for one in pairs for node in one}
    controls = rounds.among([node for node in well if node not in busy], chance, links)[:MOST_CONTROLS]
    if controls:
        return MeasuredBeside(dict((yield [*pairs, *controls])), controls, 1)
    values = dict((yield list(pairs)))
    controls = rounds.among(well, chance, links | set(pairs))[:MOST_CONTROLS]
    if not controls:
        return MeasuredBeside(values, (), 1)
    return MeasuredBeside({**values, **(yield controls)}, controls, 2)
