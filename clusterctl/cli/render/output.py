"""Share what all commands that print artifacts do: load the inventory, place ranks, print the result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl.cli import console

if TYPE_CHECKING:
    from clusterctl.artifacts.ranks import RankPlacement
    from clusterctl.inventory.model import Inventory, Node

NpOption = Annotated[
    int | None, typer.Option("-np", "--np", metavar="N", min=1, help="Number of ranks; default: all slots.")
]
SlotsOption = Annotated[
    int | None,
    typer.Option("--slots", min=1, help="Ranks per node, for nodes without slots in the inventory."),
]


def load(path: Path | None, limit: Sequence[str] | None) -> Inventory:
    """Return the inventory at ``path``, or the default one, limited to some of its nodes."""
    from clusterctl.cli.named_inventory import named
    from clusterctl.inventory.limit import limited

    return limited(named(path), limit)


def place(nodes: Sequence[Node], np: int | None, slots: int | None) -> RankPlacement:
    """Place ``np`` ranks on the nodes; ``slots`` applies to nodes without slots in the inventory."""
    from clusterctl.artifacts import ranks

    return ranks.place(nodes, np, {node.name: slots for node in nodes} if slots is not None else None)


def emit(artifact: str, text: str, as_json: bool, **more: Any) -> None:
    """Print the artifact to stdout, as plain text or as a clusterctl.render/1 document."""
    if as_json:
        from clusterctl.documents.render import Render

        console.emit_json(Render(artifact=artifact, text=text, **more).document())
    else:
        console.data(text)
