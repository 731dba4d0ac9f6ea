"""What the ranks of a simulated ``locate`` write, each its own rates; any of them may lie about its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulated_pairs import SimulatedFleet

from clusterctl.benchmarks import locate
from clusterctl.workloads.locate import cause, ends, intermittent
from clusterctl.workloads.locate.fleet import RankFleet
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.search import search

Lie = Callable[[int, int, float], float]
"""From the rank, its peer and the rate that it measured, the rate that it sends and writes."""


def honest(_rank: int, _peer: int, rate: float) -> float:
    return rate


def record(kind: str, **fields: Any) -> str:
    return "clusterctl-record " + json.dumps({"kind": f"locate-{kind}", **fields})


class Ranks:
    """The ranks of a fleet, one per place of each node: node 0 has the first ranks."""

    def __init__(
        self, fleet: SimulatedFleet, lie: Lie = honest, devices: Sequence[str] | None = None
    ) -> None:
        self.fleet, self.lie = fleet, lie
        self.hosts = [f"gpu{node + 1:02d}" for node in range(fleet.nodes) for _ in range(fleet.places)]
        self.of_nodes = RankFleet.of(self.hosts)
        self.lines: dict[int, list[str]] = {
            rank: [record("start", rank=rank, device=devices[rank] if devices else "cpu")]
            for rank in range(len(self.hosts))
        }

    def windows(self, rates: Sequence[Mapping[int, float]]) -> None:
        """Write windows of each rank alone: 1e9, or the rate that is given for a rank."""
        for window in rates:
            for rank, own in self.lines.items():
                own.append(record("window", rank=rank, rates={"gemm": window.get(rank, 1e9)}))

    def meet(self, kind: str, values: dict[tuple[Pair, int], float]) -> dict[tuple[Pair, int], float]:
        """Write a round with these rates, and return what both ends agree on."""
        met: dict[int, list[object]] = {}
        found = {}
        planned = list(dict.fromkeys(pair for pair, _ in values))
        for key, (low, high) in self.of_nodes.meetings(planned).items():
            if key in values:
                rates = self.lie(low, high, values[key]), self.lie(high, low, values[key])
                met |= {low: [high, rates[0]], high: [low, rates[1]]}
                found[key] = rates
        for rank, own in self.lines.items():
            own.append(record(kind, rank=rank, met=[met.get(rank)]))
        return ends.agreed(found)

    def run(self, windows: Sequence[Mapping[int, float]] = ({}, {}, {}), repeated: int = 0) -> dict[int, str]:
        """Search, examine and repeat, and return what each rank wrote."""
        self.windows(windows)
        steps = search(self.fleet.nodes, locate.SEED)
        verdict, planned = None, next(steps)
        while verdict is None:
            try:
                planned = steps.send(self.meet("round", self.fleet.answer(planned)))
            except StopIteration as ended:
                verdict = ended.value
        tests = cause.examine(verdict.named, self.fleet.nodes, locate.SEED)
        try:
            probe = next(tests)
            while True:
                probe = tests.send(self.meet("cause", self.fleet.probe(probe)))
        except StopIteration:
            pass
        for number in range(repeated):
            self.meet("repeated", self.fleet.answer(intermittent.plan(self.fleet.nodes, number)))
        for rank, own in self.lines.items():
            own.append(record("end", rank=rank, quota=None))
        return self.text()

    def text(self) -> dict[int, str]:
        return {rank: "\n".join(own) + "\n" for rank, own in self.lines.items()}
