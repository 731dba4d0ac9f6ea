"""The rates of all pairs of nodes on one rail, as a matrix; of a large fleet, the partners of the slowest nodes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from clusterctl.documents.locate import Locate, PairRate, SuspectStatus
from clusterctl.report.view import Cell, Head, Table
from clusterctl.text.grouping import grouped
from clusterctl.views.heat_map import shade

WHOLE_UP_TO = 24
"""So many nodes fit as columns; the nodes of a larger fleet have a column for each partner that they met."""
ROWS_SHOWN = 48
PARTNER = "partner"
"""The class of a cell that is low because the other node of the pair is slow."""
_NOT_MET = Cell("", shade="none")


def matrices(found: Locate) -> tuple[tuple[Table, ...], tuple[Table, ...]]:
    """Return a matrix for each rail: those with something slow or undecided, or the first, and the others."""
    places = grouped((one.place, one) for one in found.pairs)
    listed = {one.place for one in found.suspects if one.status is not SuspectStatus.CLEARED}
    ordered = sorted(places, key=lambda place: (place not in listed, place))
    made = tuple(_matrix(place, places[place], found, len(places)) for place in ordered)
    shown = max(1, sum(place in listed for place in places))
    return made[:shown], made[shown:]


def _matrix(place: int, pairs: Sequence[PairRate], found: Locate, rails: int) -> Table:
    median = statistics.median(one.gbps for one in pairs)
    slow = {
        one.nodes[0]
        for one in found.suspects
        if one.status is SuspectStatus.NAMED and one.place == place and len(one.nodes) == 1
    }
    met: dict[str, dict[str, float]] = {}
    for one in pairs:
        first, second = one.nodes
        met.setdefault(first, {})[second] = one.gbps
        met.setdefault(second, {})[first] = one.gbps
    names = [one.node for one in found.rates if one.place == place]
    interface = next((one.interface for one in found.suspects if one.place == place and one.interface), None)
    left_out = 0
    if len(names) <= WHOLE_UP_TO:
        columns = tuple(names)
        rows = [
            (node, [_cell(node, other, met.get(node, {}), median, slow) for other in names]) for node in names
        ]
    else:
        slowest = sorted(names, key=lambda node: max(met.get(node, {"": 0.0}).values()))[:ROWS_SHOWN]
        most = max(len(met.get(node, {})) for node in slowest)
        rows = [(node, _partners(node, met.get(node, {}), median, most, slow)) for node in slowest]
        columns, left_out = (
            tuple(f"partner {number}" for number in range(1, most + 1)),
            len(names) - len(slowest),
        )
    note = f"Deviation of each pair from the median of {speed(median)}, in percent. "
    note += "The colour changes at 2, 5 and 10 %."
    note += " Grey: the other node of the pair is named as slow." if slow else ""
    if left_out:
        note += f" The {len(rows)} slowest nodes, with the partners that each met; {left_out} more nodes are faster."
    return Table(
        heads=tuple(Head(text) for text in ("node", *columns)),
        rows=tuple((Cell(node), *cells) for node, cells in rows),
        style="heat",
        title=f"Rail {place}" + (f" ({interface})" if interface else "") if rails > 1 else "Pairs of nodes",
        note=note,
    )


def _partners(
    node: str, rates: Mapping[str, float], median: float, columns: int, slow: Set[str]
) -> list[Cell]:
    """Return the cells of the partners that a node met, the slowest first, with the names of those that are slow."""
    cells = []
    for other in sorted(rates, key=lambda other: rates[other]):
        cell = _cell(node, other, rates, median, slow)
        cells.append(replace(cell, text=f"{cell.text} {other}") if cell.shade == PARTNER else cell)
    return [*cells, *[_NOT_MET] * (columns - len(cells))]


def _cell(node: str, other: str, rates: Mapping[str, float], median: float, slow: Set[str]) -> Cell:
    """Return the deviation of a pair; it has no colour in the row of a healthy node that met a slow one."""
    if other not in rates:
        return _NOT_MET
    off = rates[other] / median - 1 if median > 0 else 0.0
    percent = round(100 * off)
    said = f"{percent:+d}" if percent else "0"
    colour = PARTNER if other in slow and node not in slow else shade(off)
    return Cell(said, title=f"{node} with {other}: {speed(rates[other])}", shade=colour)


def speed(gbps: float) -> str:
    """Return a rate for people."""
    return f"{gbps:.3g} GB/s" if gbps >= 0.9995 else f"{1000 * gbps:.3g} MB/s"
