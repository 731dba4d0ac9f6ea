"""Linear scaling efficiency, by the formulas of the vendors' own guides.

Within a node: throughput of many devices / throughput of one / devices. Between nodes: throughput of many
nodes / throughput of one / nodes (Alibaba Cloud, "AIACC-ACSpeed"). The same figure as a percentage closes Tencent
Cloud's guide to TACO Train (819 images/s on one GPU, 6469 on 8: 98.73 %).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a scaling curve; ``spread`` is 1.96 sigma of the samples per second of its widest rank."""

    np: int
    nodes: int
    samples_per_s: float
    spread: float = 0.0

    @property
    def samples_per_s_per_rank(self) -> float:
        return self.samples_per_s / self.np


@dataclass(frozen=True, slots=True)
class BetweenNodes:
    """How throughput grows from one node to several with the same ranks on each."""

    np: int
    nodes: int
    efficiency: float


def efficiency(many: float, one: float, count: int) -> float:
    """Return many / one / count; ValueError when a throughput or a count is not above zero."""
    if one <= 0 or many <= 0 or count < 1:
        raise ValueError(f"no efficiency of {many} against {one} over {count}")
    return many / one / count


def efficiencies(points: Sequence[Point]) -> tuple[float | None, ...]:
    """Return each point's efficiency against the point of one rank; all None when there is no such point."""
    single = next((point for point in points if point.np == 1), None)
    if single is None:
        return tuple(None for _ in points)
    return tuple(efficiency(point.samples_per_s, single.samples_per_s, point.np) for point in points)


def between_nodes(points: Sequence[Point]) -> tuple[BetweenNodes, ...]:
    """Return the figure between nodes for every point on several nodes that has its like on one."""
    found = []
    for point in points:
        if point.nodes < 2 or point.np % point.nodes:
            continue
        per_node = point.np // point.nodes
        like = next((p for p in points if p.nodes == 1 and p.np == per_node), None)
        if like is not None:
            figure = efficiency(point.samples_per_s, like.samples_per_s, point.nodes)
            found.append(BetweenNodes(point.np, point.nodes, figure))
    return tuple(found)


def percent(value: float | None) -> str:
    """Return an efficiency as a percentage with two decimals, cut and never rounded up; ``-`` without one."""
    if value is None:
        return "-"
    # The nudge keeps 0.9873 from becoming 98.72 through binary fractions.
    return f"{math.floor(value * 10000 + 1e-6) / 100:.2f}%"
