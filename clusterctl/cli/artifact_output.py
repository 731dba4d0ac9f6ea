"""What every artifact's command does alike: read the inventory, place ranks, put the result out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl.cli import console

if TYPE_CHECKING:
    from clusterctl.artifacts.ranks import Placement
    from clusterctl.inventory.model import Inventory, Node

NpOption = Annotated[
    int | None, typer.Option("-np", "--np", metavar="N", min=1, help="Ranks; default: all slots.")
]
SlotsOption = Annotated[
    int | None,
    typer.Option("--slots", min=1, help="Ranks per node where the inventory does not say."),
]


def load(path: Path | None, limit: Sequence[str] | None) -> Inventory:
    """Return the inventory that is meant, limited to some of its nodes."""
    from clusterctl.inventory import load as loading

    return loading.limit(loading.load(path), limit)


def place(nodes: Sequence[Node], np: int | None, slots: int | None) -> Placement:
    """Fill nodes with ranks; ``slots`` stands in where the inventory says none."""
    from clusterctl.artifacts import ranks

    return ranks.place(nodes, np, {node.name: slots for node in nodes} if slots is not None else None)


def emit(artifact: str, text: str, as_json: bool, **more: Any) -> None:
    """Write the artifact to stdout, alone or as the document clusterctl.render/1."""
    if as_json:
        console.emit_json({"schema": "clusterctl.render/1", "artifact": artifact, "text": text, **more})
    else:
        console.data(text)
