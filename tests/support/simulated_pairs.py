"""A simulated fleet that answers the rounds of ``locate``: its slow nodes, its noise, its disturbed pairs.

A pair runs at the speed of its slower node. Healthy nodes differ by 0.5 %. Each of three repeats loses |N(0, noise)|,
the best counts. ``bursts``: one pair in twenty loses 10 to 60 % in all three.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

from clusterctl.workloads.locate import cause
from clusterctl.workloads.locate.cause import CauseTest, Examined, Probe
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.search import search
from clusterctl.workloads.locate.verdict import LocateVerdict, Values

_SPREAD, _REPEATS, _DISTURBED = 0.005, 3, 0.05


@dataclass
class SimulatedFleet:
    """A fleet; ``bad`` holds units (node, place) with their loss, ``cables`` pairs with theirs."""

    nodes: int
    seed: int
    bad: dict[tuple[int, int], float] = field(default_factory=dict)
    cables: dict[Pair, float] = field(default_factory=dict)
    places: int = 1
    noise: float = 0.05
    bursts: bool = True
    sends: dict[tuple[int, int], float] = field(default_factory=dict)
    """Losses of units that only lose when they send."""
    shared: dict[int, float] = field(default_factory=dict)
    """Losses of nodes that only lose while all of their places are in use."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.speed = {
            (node, place): (1 + self.chance.gauss(0, _SPREAD)) * (1 - self.bad.get((node, place), 0))
            for node in range(self.nodes) for place in range(self.places)
        }  # fmt: skip
        self.rounds: list[list[Pair]] = []

    def answer(self, planned: Collection[Pair]) -> Values:
        """Return the rates of one round."""
        self.rounds.append(list(planned))
        return {((low, high), place): self._rate(low, high, place)
                for low, high in planned for place in range(self.places)}  # fmt: skip

    def probe(self, probe: Probe) -> Values:
        """Return the rates of one round of an examination."""
        places = range(self.places) if probe.place is None else [probe.place]
        return {((min(one), max(one)), place): self._rate(*one, place, probe)
                for one in probe.pairs for place in places}  # fmt: skip

    def _rate(self, low: int, high: int, place: int, probe: Probe | None = None) -> float:
        rate = min(self.speed[low, place], self.speed[high, place]) * (1 - self.cables.get((low, high), 0))
        test = CauseTest.ALONE if probe is None else probe.test
        senders = {CauseTest.SENDS: (low,), CauseTest.RECEIVES: (high,)}.get(test, (low, high))
        rate *= min(1 - self.sends.get((node, place), 0) for node in senders)
        if probe is None or probe.place is None:
            rate *= min(1 - self.shared.get(node, 0) for node in (low, high))
        if self.bursts and self.chance.random() < _DISTURBED:
            rate *= 1 - self.chance.uniform(0.1, 0.6)
        return max(rate * (1 - abs(self.chance.gauss(0, self.noise))) for _ in range(_REPEATS))

    def locate(self) -> LocateVerdict:
        """Search until the verdict."""
        steps = search(self.nodes, self.seed)
        planned = next(steps)
        while True:
            try:
                planned = steps.send(self.answer(planned))
            except StopIteration as ended:
                verdict: LocateVerdict = ended.value
                return verdict

    def examine(self, verdict: LocateVerdict) -> tuple[Examined, ...]:
        """Examine what was named."""
        steps = cause.examine(verdict.named, self.nodes, self.seed)
        try:
            probe = next(steps)
            while True:
                probe = steps.send(self.probe(probe))
        except StopIteration as ended:
            examined: tuple[Examined, ...] = ended.value
            return examined
