"""What every rank of a training made per second, node by node: who is slower or faster than the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

ROWS_SHOWN = 64
_BOUNDS = (0.02, 0.05, 0.10)
"""Deviations from the median at which the colour changes; within the first it is none."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One rank: its samples per second, 1.96 sigma of them, and its deviation from the median as a share."""

    rank: int
    samples_per_s: float
    spread: float
    deviation: float

    @property
    def shade(self) -> str:
        """The style sheet's class: ``h0`` near the median, ``below1`` to ``below3``, ``above1`` to ``above3``."""
        step = sum(abs(self.deviation) >= bound for bound in _BOUNDS)
        return "h0" if step == 0 else f"{'below' if self.deviation < 0 else 'above'}{step}"

    @property
    def says(self) -> str:
        return f"{self.deviation * 100:+.1f}"


@dataclass(frozen=True, slots=True)
class Row:
    """One node and its ranks."""

    node: str
    cells: tuple[Cell, ...]

    @property
    def worst(self) -> float:
        """The largest deviation from the median in either direction."""
        return max(abs(cell.deviation) for cell in self.cells)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The rows of a heat map, in the nodes' order; of many nodes, those that deviate most."""

    np: int
    unit: str
    median: float
    rows: tuple[Row, ...]
    left_out: int
    left_out_within: float
    slowest: Cell
    slowest_node: str

    @property
    def columns(self) -> int:
        return max(len(row.cells) for row in self.rows)


def heat_map(rates: Sequence[Mapping[str, Any]], unit: str) -> HeatMap | None:
    """Return the heat map of one launch's rates (``proof.rates``); None for fewer than two ranks."""
    if len(rates) < 2:
        return None
    middle = median(float(rate["samples_per_s"]) for rate in rates)
    nodes: dict[str, list[Cell]] = {}
    for rate in sorted(rates, key=lambda one: int(one["rank"])):
        value = float(rate["samples_per_s"])
        off = value / middle - 1 if middle > 0 else 0.0
        cell = Cell(int(rate["rank"]), value, float(rate.get("spread") or 0.0), off)
        nodes.setdefault(str(rate.get("host") or "unknown"), []).append(cell)
    rows = [Row(node, tuple(cells)) for node, cells in nodes.items()]
    shown, left = rows, rows[:0]
    if len(rows) > ROWS_SHOWN:
        by_worst = sorted(rows, key=lambda row: row.worst, reverse=True)
        keep = {row.node for row in by_worst[:ROWS_SHOWN]}
        shown = [row for row in rows if row.node in keep]
        left = by_worst[ROWS_SHOWN:]
    slowest_node, slowest = min(
        ((row.node, cell) for row in rows for cell in row.cells), key=lambda found: found[1].samples_per_s
    )
    return HeatMap(
        np=len(rates),
        unit=unit,
        median=middle,
        rows=tuple(shown),
        left_out=len(left),
        left_out_within=max((row.worst for row in left), default=0.0),
        slowest=slowest,
        slowest_node=slowest_node,
    )
