"""The rates of all ranks, node by node: which ranks are slower or faster than the rest.

For a training these are the samples per second of each rank. In a collective all ranks wait for the slowest, so the
rates are those of each rank's exchange with its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from clusterctl.documents.evidence import RankSpeed
from clusterctl.documents.proof import NeighbourRates, Proof
from clusterctl.report.text.table import size

ROWS_SHOWN = 64
_BOUNDS = (0.02, 0.05, 0.10)
"""Deviations from the median at which the colour changes; below the first, a cell has no colour."""


def shade(deviation: float) -> str:
    """Return the style sheet's class for a deviation from the median."""
    step = sum(abs(deviation) >= bound for bound in _BOUNDS)
    return "h0" if step == 0 else f"{'below' if deviation < 0 else 'above'}{step}"


@dataclass(frozen=True, slots=True)
class RankCell:
    """One rank: its samples per second, 1.96 sigma of them, and its deviation from the median as a share."""

    rank: int
    samples_per_s: float
    spread: float
    deviation: float

    @property
    def shade(self) -> str:
        """The style sheet's class: ``h0`` near the median, ``below1`` to ``below3``, ``above1`` to ``above3``."""
        return shade(self.deviation)

    @property
    def says(self) -> str:
        return f"{self.deviation * 100:+.1f}"


@dataclass(frozen=True, slots=True)
class HeatMapRow:
    """One node and its ranks."""

    node: str
    cells: tuple[RankCell, ...]

    @property
    def worst(self) -> float:
        """The largest deviation from the median in either direction."""
        return max(abs(cell.deviation) for cell in self.cells)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The rows of a heat map, in the nodes' order; with many nodes, only those that deviate most."""

    np: int
    unit: str
    median: float
    about: str
    """Sentences before the one that explains the cells."""
    rows: tuple[HeatMapRow, ...]
    left_out: int
    left_out_within: float
    slowest: RankCell
    slowest_node: str

    @property
    def columns(self) -> int:
        return max(len(row.cells) for row in self.rows)

    def title(self, cell: RankCell) -> str:
        """Return the tooltip of a cell."""
        spread = f" \u00b1{cell.spread:.1f}" if cell.spread else ""
        return f"rank {cell.rank}: {self.figure(cell.samples_per_s)}{spread} {self.unit}"

    def figure(self, value: float) -> str:
        """Return one rank's rate as text; bandwidths of a slow network need more digits than images."""
        return f"{value:.3f}" if self.unit == "GB/s" and value < 10 else f"{value:.1f}"


def of_proof(proof: Proof, np: int | None, unit: str) -> HeatMap | None:
    """Return the heat map of a run: of its training with ``np`` ranks, or of a collective's neighbours."""
    rates = (proof.rates or {}).get(str(np))
    if rates:
        return heat_map(rates, unit)
    if proof.neighbours is None or not proof.neighbours.ranks:
        return None
    found = [RankSpeed(one.rank, one.host, one.gbps, 0.0) for one in proof.neighbours.ranks]
    return heat_map(found, "GB/s", _neighbours(proof.neighbours))


def _neighbours(measured: NeighbourRates) -> str:
    ranks = measured.ranks
    alone = len({one.host for one in ranks}) == 1
    others = (
        "ranks before and after it"
        if alone
        else "ranks with the same local rank on the previous and the next node"
    )
    about = (
        "In a collective all ranks wait for the slowest. Each rank therefore exchanged "
        f"{size(measured.size_bytes)} with the {others}, in pairs. "
        "The better result is shown, so a low value means slow with every neighbour."
    )
    if all(len(one.gbps_with) == 1 for one in ranks):
        about += " With one neighbour per rank, both ends of a slow link have a low value."
    return about


def heat_map(rates: Sequence[RankSpeed], unit: str, about: str = "") -> HeatMap | None:
    """Return the heat map of one launch's rates (``proof.rates``); None for fewer than two ranks.

    ``about``: as in the heat map.
    """
    if len(rates) < 2:
        return None
    middle = median(rate.samples_per_s for rate in rates)
    nodes: dict[str, list[RankCell]] = {}
    for rate in sorted(rates, key=lambda one: one.rank):
        off = rate.samples_per_s / middle - 1 if middle > 0 else 0.0
        cell = RankCell(rate.rank, rate.samples_per_s, rate.spread, off)
        nodes.setdefault(rate.host or "unknown", []).append(cell)
    rows = [HeatMapRow(node, tuple(cells)) for node, cells in nodes.items()]
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
        about=about,
        rows=tuple(shown),
        left_out=len(left),
        left_out_within=max((row.worst for row in left), default=0.0),
        slowest=slowest,
        slowest_node=slowest_node,
    )
