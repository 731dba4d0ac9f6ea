"""Compute linear scaling efficiency, by the formulas of the vendors' guides.

Within a node: throughput of many devices / throughput of one / devices. Between nodes: throughput of many
nodes / throughput of one / nodes (Alibaba Cloud, "AIACC-ACSpeed"). Tencent Cloud's
guide to TACO Train gives the same figure as a percentage (819 images/s on one GPU, 6469 on 8: 98.73 %).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """Hold one point of a scaling curve; ``spread``: 1.96 sigma of samples/s of the rank with the widest spread."""

    np: int
    nodes: int
    samples_per_s: float
    spread: float = 0.0

    @property
    def samples_per_s_per_rank(self) -> float:
        return self.samples_per_s / self.np


def efficiency(many: float, one: float, count: int) -> float:
    """Return many / one / count; raise ValueError if a throughput or a count is not above zero."""
    if one <= 0 or many <= 0 or count < 1:
        raise ValueError(f"efficiency needs values above zero, not {many}, {one} and {count}")
    return many / one / count


def efficiencies(points: Sequence[Point]) -> tuple[float | None, ...]:
    """Return each point's efficiency relative to the point with one rank; all None without such a point."""
    single = next((point for point in points if point.np == 1), None)
    if single is None:
        return tuple(None for _ in points)
    return tuple(efficiency(point.samples_per_s, single.samples_per_s, point.np) for point in points)


def between_nodes(points: Sequence[Point]) -> dict[int, float]:
    """Return the efficiency, by number of ranks, of each point on several nodes that has a matching one on one node."""
    found = {}
    for point in points:
        if point.nodes < 2 or point.np % point.nodes:
            continue
        per_node = point.np // point.nodes
        like = next((p for p in points if p.nodes == 1 and p.np == per_node), None)
        if like is not None:
            found[point.np] = efficiency(point.samples_per_s, like.samples_per_s, point.nodes)
    return found


def percent(value: float | None) -> str:
    """Return an efficiency as a percentage with two decimals, truncated; ``-`` for None."""
    if value is None:
        return "-"
    # The small addend keeps 0.9873 from becoming 98.72 through binary fractions.
    return f"{math.floor(value * 10000 + 1e-6) / 100:.2f}%"
