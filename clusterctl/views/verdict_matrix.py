"""The verdicts of a fleet as a matrix: a sign for each node and each requirement or row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterctl.inventory import nodeset
from clusterctl.report.line import Tone
from clusterctl.report.view import Block, Cell, Head, Table
from clusterctl.text.grouping import grouped

_OPEN = (Tone.BAD, Tone.OPEN, Tone.FIXABLE)


def block(
    title: str, names: Sequence[str], cells_of: Mapping[str, tuple[Cell, ...]], legend: Sequence[Cell]
) -> Block:
    """Return a row for all nodes with the same signs, the worst first, and closed a row for each node.

    ``cells_of`` has a cell for each of ``names``; ``legend`` tells what the signs mean.
    """
    alike = grouped((tuple(cell.text for cell in cells), node) for node, cells in cells_of.items())
    rows = [(nodeset.fold_counted(nodes, " nodes"), cells_of[nodes[0]]) for nodes in alike.values()]
    rows.sort(key=lambda row: [-sum(cell.tone in tones for cell in row[1]) for tones in (_OPEN[:1], _OPEN)])
    heads = (Head("nodes"), *map(Head, names))

    def table(shown: Sequence[tuple[str, tuple[Cell, ...]]], note: str, signs: Sequence[Cell]) -> Table:
        found = tuple((Cell(nodes), *cells) for nodes, cells in shown)
        return Table(heads, found, style="matrix", title=title, note=note, legend=tuple(signs))

    folded = len(rows) < len(cells_of)
    shared = "Nodes with the same verdicts share a row." if folded else ""
    return Block(
        title,
        tables=(table(rows, shared, legend),) if rows else (),
        closed=(table(list(cells_of.items()), "", ()),) if folded else (),
        summary="Every node in a row of its own",
        on_terminal=False,
    )
