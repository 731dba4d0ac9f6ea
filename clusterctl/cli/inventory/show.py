"""``inventory show``: the settings of nodes with the place that each comes from, without contacting a node."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli


def show(
    nodes: Annotated[
        str | None,
        typer.Argument(metavar="NODE", help="Nodes to show, as --limit takes them; default: a list of all."),
    ] = None,
    inventory: cli.InventoryOption = None,
    defaults: Annotated[
        bool, typer.Option("--all", help="Also the settings that no line of the inventory sets.")
    ] = False,
    as_json: cli.JsonOption = False,
) -> None:
    """Show the settings of nodes, and which line of the inventory sets each; contact no node.

    Precedence: node, groups from the last to the first in the file, defaults, built-in default.
    """
    from clusterctl.inventory import load
    from clusterctl.inventory.limit import limited
    from clusterctl.inventory.provenance import Provenance
    from clusterctl.report.inventory_document import document_of
    from clusterctl.report.text import of_view
    from clusterctl.views import inventory as view_of

    loaded = load.read(inventory)
    if loaded.inventory.source is None:
        console.talk("no ./inventory.yaml: showing this machine")
    document = document_of(
        limited(loaded.inventory, nodes, option="NODE"), Provenance(loaded), defaults=defaults
    )
    if as_json:
        console.emit_json(document)
    else:
        view = view_of.listing if nodes is None and not defaults else view_of.settings
        console.data(of_view.lines(view(document), console.width()))
