"""The rates of all ranks, node by node: which ranks are slower or faster than the rest.

For a training these are the samples per second of each rank. In a collective all ranks wait for the slowest, so the
rates are those of each rank's exchange with its neighbours.
"""

from __future__ import annotations

from statistics import median

from clusterctl.documents.evidence import RankSpeed
from clusterctl.documents.proof import NeighbourRates, Proof
from clusterctl.report.text.table import size
from clusterctl.report.view import Block, Cell, Head, Table

ROWS_SHOWN = 64
_BOUNDS = (0.02, 0.05, 0.10)
"""Deviations from the median at which the colour changes; below the first, a cell has no colour."""


def shade(deviation: float) -> str:
    """Return the style sheet's class for a deviation from the median."""
    step = sum(abs(deviation) >= bound for bound in _BOUNDS)
    return "h0" if step == 0 else f"{'below' if deviation < 0 else 'above'}{step}"


def block(proof: Proof, np: int | None, unit: str, title: str) -> Block | None:
    """Return the heat map of a run: of its training with ``np`` ranks, or of a collective's neighbours.

    With many nodes, it shows those that deviate most. None for fewer than two ranks.
    """
    rates = (proof.rates or {}).get(str(np), ())
    about = ""
    if not rates and proof.neighbours is not None:
        rates = tuple(RankSpeed(one.rank, one.host, one.gbps, 0.0) for one in proof.neighbours.ranks)
        unit = "GB/s"
        about = f"{_neighbours(proof.neighbours)} " if rates else ""
    if len(rates) < 2:
        return None
    middle = median(rate.samples_per_s for rate in rates)
    nodes: dict[str, list[tuple[RankSpeed, float]]] = {}
    for rate in sorted(rates, key=lambda one: one.rank):
        off = rate.samples_per_s / middle - 1 if middle > 0 else 0.0
        nodes.setdefault(rate.host or "unknown", []).append((rate, off))
    worst = {node: max(abs(off) for _, off in ranks) for node, ranks in nodes.items()}
    ordered = sorted(nodes, key=lambda node: worst[node], reverse=True)
    shown, left_out = set(ordered[:ROWS_SHOWN]), ordered[ROWS_SHOWN:]
    rows = tuple(
        (Cell(node), *(_cell(rate, off, unit) for rate, off in ranks))
        for node, ranks in nodes.items()
        if node in shown
    )
    columns = max(map(len, rows))
    node, (slowest, off) = min(
        ((node, one) for node, ranks in nodes.items() for one in ranks),
        key=lambda found: found[1][0].samples_per_s,
    )
    said = (
        f"The slowest is rank {slowest.rank} on {node} with {_rate(slowest.samples_per_s, unit)} ({_percent(off)} %)."
        if shade(off) != "h0"
        else "All are within 2 % of it."
    )
    more = (
        f"{len(left_out)} more nodes are within {100 * max(worst[node] for node in left_out):.1f} % of the median."
        if left_out
        else ""
    )
    table = Table(
        heads=(Head("node"), *(Head(str(column)) for column in range(columns - 1))),
        rows=tuple((*row, *[Cell("")] * (columns - len(row))) for row in rows),
        style="heat",
        title=title,
    )
    return Block(
        title,
        before=f"{about}The cells show the deviation of each of the {len(rates)} ranks from their median of "
        f"{_rate(middle, unit)}, in percent. {said}",
        tables=(table,),
        after=(
            *((more,) if more else ()),
            "Columns are the ranks of a node in ascending order. The colour changes at 2, 5 and 10 %.",
        ),
        on_terminal=False,
    )


def _cell(rate: RankSpeed, off: float, unit: str) -> Cell:
    spread = f" \u00b1{rate.spread:.1f}" if rate.spread else ""
    title = f"rank {rate.rank}: {_rate(rate.samples_per_s, unit, spread)}"
    return Cell(_percent(off), title=title, shade=shade(off))


def _percent(off: float) -> str:
    return f"{off * 100:+.1f}"


def _rate(value: float, unit: str, spread: str = "") -> str:
    """Return one rank's rate as text; bandwidths of a slow network need more digits than images."""
    return f"{value:.{3 if unit == 'GB/s' and value < 10 else 1}f}{spread} {unit}"


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
