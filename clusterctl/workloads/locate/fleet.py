"""Which ranks are on which node, and at which place there: ranks of the same place share a rail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterctl.workloads.locate.rounds import Pair


@dataclass(frozen=True)
class RankFleet:
    """Nodes and their ranks, in the order of the launch. On a single node, every rank counts as a node of one place."""

    names: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, hosts: Sequence[str]) -> RankFleet:
        """Return the fleet for the node name of each rank."""
        found: dict[str, list[int]] = {}
        for rank, host in enumerate(hosts):
            found.setdefault(host, []).append(rank)
        if len(found) == 1:
            (name,) = found
            return cls((name,) * len(hosts), tuple((rank,) for rank in range(len(hosts))))
        return cls(tuple(found), tuple(tuple(own) for own in found.values()))

    @property
    def node_of_rank(self) -> tuple[str, ...]:
        """Return the name of the node of each rank."""
        of = {rank: name for name, own in zip(self.names, self.ranks, strict=True) for rank in own}
        return tuple(of[rank] for rank in sorted(of))

    @property
    def places(self) -> int:
        """Return the largest number of ranks on a node."""
        return max(len(own) for own in self.ranks)

    def where(self, rank: int) -> tuple[int, int]:
        """Return node and place of a rank."""
        return next((node, own.index(rank)) for node, own in enumerate(self.ranks) if rank in own)

    def ranks_of_place(self, place: int) -> list[int]:
        """Return the ranks of one place on all nodes that have it."""
        return [own[place] for own in self.ranks if place < len(own)]

    def peer(self, rank: int, planned: Sequence[Pair]) -> int | None:
        """Return the rank that this one meets in a round; None if it pauses."""
        node, place = self.where(rank)
        for one in planned:
            if node in one:
                other = self.ranks[sum(one) - node]
                return other[place] if place < len(other) else None
        return None

    def meetings(self, planned: Sequence[Pair], place: int | None = None) -> dict[tuple[Pair, int], Pair]:
        """Return the two ranks that meet in a round, by pair of nodes and place; ``place``: only this one."""
        return {
            (one, at): (low, high)
            for one in planned
            for at, (low, high) in enumerate(zip(*(self.ranks[node] for node in one), strict=False))
            if place in (None, at)
        }
