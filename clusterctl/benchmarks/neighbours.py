"""Parse the rates of ranks with their neighbours; the best rate of a rank is its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusterctl.documents.proof import NeighbourRates, RankNeighbours

_LINE = re.compile(r"^#\s*Neighbours of rank (?P<rank>\d{1,9}) on (?P<host>\S+): (?P<speeds>.*)$")
_SPEED = re.compile(r"(?<![\d.])(\d{1,12}(?:\.\d{1,12})?) GB/s with (\d{1,9})\b")
_SIZE = re.compile(r"^#\s*Neighbours: (\d{1,18}) bytes")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Hold one rank: its node, and GB/s in each direction with each neighbour."""

    rank: int
    host: str
    gbps: dict[int, float]

    @property
    def best_gbps(self) -> float:
        """Return the rank's own rate: next to one slow neighbour, the other neighbour shows it."""
        return max(self.gbps.values())


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Hold all ranks with neighbours, and the bytes of a message; empty if nothing was measured."""

    size_bytes: int = 0
    ranks: tuple[Neighbours, ...] = ()

    def placed(self, node_of_rank: Sequence[str]) -> Neighbourhood:
        """Return a copy with the launch's node names: host names may differ from these, or all be the same."""
        named = tuple(
            replace(one, host=node_of_rank[one.rank]) for one in self.ranks if one.rank < len(node_of_rank)
        )
        return replace(self, ranks=named)

    def part(self) -> NeighbourRates:
        """Return the content of ``proof.neighbours``."""
        listed = tuple(
            RankNeighbours(
                rank=one.rank,
                host=one.host,
                gbps=one.best_gbps,
                gbps_with={str(p): v for p, v in one.gbps.items()},
            )
            for one in self.ranks
        )
        return NeighbourRates(size_bytes=self.size_bytes, ranks=listed)


def parse(lines: Sequence[str]) -> Neighbourhood:
    """Parse the output of workloads/neighbours.py, among other lines."""
    size_bytes, found = 0, []
    for line in lines:
        if match := _SIZE.match(line):
            size_bytes = int(match[1])
        elif match := _LINE.match(line):
            speeds = {int(peer): float(gbps) for gbps, peer in _SPEED.findall(match["speeds"])}
            if speeds:
                found.append(Neighbours(int(match["rank"]), match["host"], speeds))
    return Neighbourhood(size_bytes, tuple(found))
