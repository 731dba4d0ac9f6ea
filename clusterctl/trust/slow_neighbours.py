"""Ranks that are slow with all their neighbours: a collective waits for their node, NIC or GPU."""

from __future__ import annotations

from clusterctl.benchmarks.neighbours import Neighbourhood
from clusterctl.documents.proof import SlowRank
from clusterctl.trust import stragglers

LEAST_LOSS = 0.10
"""Pairs are timed only a few times and concurrently, so a smaller loss is not significant."""


def find(neighbours: Neighbourhood) -> tuple[SlowRank, ...]:
    """Return the slow ranks as entries of ``proof.stragglers``, slowest first."""
    rates = {one.rank: (one.host, one.best_gbps) for one in neighbours.ranks}
    return tuple(
        SlowRank(
            rank=slow.rank,
            host=slow.host,
            gbps=slow.rate,
            median_gbps=round(slow.median, 3),
            loss=round(slow.loss, 4),
        )
        for slow in stragglers.find(rates, LEAST_LOSS)
    )
