"""The rates of all pairs of nodes on one rail, as a matrix; of a large fleet, the partners of the slowest nodes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterctl.documents.locate import Locate, PairRate
from clusterctl.grouping import grouped
from clusterctl.report.html.heat_map import shade
from clusterctl.report.text.locate import speed

WHOLE_UP_TO = 24
"""So many nodes fit as columns; the nodes of a larger fleet have a column for each partner that they met."""
ROWS_SHOWN = 48


@dataclass(frozen=True, slots=True)
class PairCell:
    """A pair's deviation from the median in percent, its class in the style sheet, and its tooltip."""

    says: str
    shade: str
    title: str


@dataclass(frozen=True, slots=True)
class PairRow:
    """One node; a cell is None if the two nodes did not meet."""

    node: str
    cells: tuple[PairCell | None, ...]


@dataclass(frozen=True, slots=True)
class PairMatrix:
    """One rail: its name, the median rate, the columns, and the rows; ``left_out`` nodes are not shown."""

    rail: str
    median: str
    columns: tuple[str, ...]
    rows: tuple[PairRow, ...]
    left_out: int
    marked: bool
    """Whether something on this rail was named or stays undecided."""


def matrices(found: Locate) -> list[PairMatrix]:
    """Return a matrix for each rail, those with something slow first."""
    places = grouped((one.place, one) for one in found.pairs)
    listed = {one.place for one in found.suspects if one.status.value != "cleared"}
    made = [_matrix(place, own, found, place in listed, len(places)) for place, own in sorted(places.items())]
    return sorted(made, key=lambda one: not one.marked)


def _matrix(place: int, pairs: Sequence[PairRate], found: Locate, marked: bool, rails: int) -> PairMatrix:
    median = statistics.median(one.gbps for one in pairs)
    met: dict[str, dict[str, float]] = {}
    for one in pairs:
        first, second = one.nodes
        met.setdefault(first, {})[second] = one.gbps
        met.setdefault(second, {})[first] = one.gbps
    names = [one.node for one in found.rates if one.place == place]
    interface = next((one.interface for one in found.suspects if one.place == place and one.interface), None)
    rail = f"Rail {place}" + (f" ({interface})" if interface else "") if rails > 1 else "Pairs of nodes"
    if len(names) <= WHOLE_UP_TO:
        rows = [PairRow(node, tuple(_cell(node, other, met.get(node, {}), median) for other in names))
                for node in names]  # fmt: skip
        return PairMatrix(rail, speed(median), tuple(names), tuple(rows), 0, marked)
    slowest = sorted(names, key=lambda node: max(met.get(node, {"": 0.0}).values()))[:ROWS_SHOWN]
    most = max(len(met.get(node, {})) for node in slowest)
    rows = [PairRow(node, _partners(node, met.get(node, {}), median, most)) for node in slowest]
    columns = tuple(f"partner {number}" for number in range(1, most + 1))
    return PairMatrix(rail, speed(median), columns, tuple(rows), len(names) - len(slowest), marked)


def _partners(
    node: str, rates: Mapping[str, float], median: float, columns: int
) -> tuple[PairCell | None, ...]:
    """Return the cells of the partners that a node met, the slowest first."""
    cells = [_cell(node, other, rates, median) for other in sorted(rates, key=lambda other: rates[other])]
    return (*cells, *(None for _ in range(columns - len(cells))))


def _cell(node: str, other: str, rates: Mapping[str, float], median: float) -> PairCell | None:
    if other not in rates:
        return None
    off = rates[other] / median - 1 if median > 0 else 0.0
    percent = round(100 * off)
    return PairCell(
        f"{percent:+d}" if percent else "0", shade(off), f"{node} with {other}: {speed(rates[other])}"
    )
