"""What ranks said of their neighbours: GB/s with each, and the better of them, which is the rank's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

_LINE = re.compile(r"^#\s*Neighbours of rank (?P<rank>\d{1,9}) on (?P<host>\S+): (?P<speeds>.*)$")
_SPEED = re.compile(r"(?<![\d.])(\d{1,12}(?:\.\d{1,12})?) GB/s with (\d{1,9})\b")
_SIZE = re.compile(r"^#\s*Neighbours: (\d{1,18}) bytes")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """One rank: its node, and GB/s in each direction with the ranks that it exchanged data with."""

    rank: int
    host: str
    gbps: dict[int, float]

    @property
    def best_gbps(self) -> float:
        """What the rank can do: who has a slow neighbour on one side shows it on the other."""
        return max(self.gbps.values())


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """All ranks that have neighbours, and the bytes of a message; empty where nothing was measured."""

    size_bytes: int = 0
    ranks: tuple[Neighbours, ...] = ()

    def placed(self, node_of_rank: Sequence[str]) -> Neighbourhood:
        """Return it with the nodes' names from the launch: host names may be others, or all the same."""
        named = tuple(
            replace(one, host=node_of_rank[one.rank]) for one in self.ranks if one.rank < len(node_of_rank)
        )
        return replace(self, ranks=named)

    def document(self) -> dict[str, Any]:
        """Return it as ``proof.neighbours`` holds it."""
        listed = [
            {
                "rank": one.rank,
                "host": one.host,
                "gbps": one.best_gbps,
                "gbps_with": {str(p): v for p, v in one.gbps.items()},
            }
            for one in self.ranks
        ]
        return {"size_bytes": self.size_bytes, "ranks": listed}


def parse(lines: Sequence[str]) -> Neighbourhood:
    """Read what workloads/neighbours.py prints, among other lines."""
    size_bytes, found = 0, []
    for line in lines:
        if match := _SIZE.match(line):
            size_bytes = int(match[1])
        elif match := _LINE.match(line):
            speeds = {int(peer): float(gbps) for gbps, peer in _SPEED.findall(match["speeds"])}
            if speeds:
                found.append(Neighbours(int(match["rank"]), match["host"], speeds))
    return Neighbourhood(size_bytes, tuple(found))
