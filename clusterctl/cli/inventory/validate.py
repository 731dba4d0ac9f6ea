"""``inventory validate``: read an inventory and report every problem, without contacting a node."""

from __future__ import annotations

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.text.wording import counted


def validate(inventory: cli.InventoryArgument = None, as_json: cli.JsonOption = False) -> None:
    """Read an inventory and report every problem with its line; contact no node.

    Exit code 0: the inventory is valid; 1: no inventory found; 4: it has problems.
    """
    from clusterctl.cli.named_inventory import named
    from clusterctl.documents.inventory import InventoryValidation
    from clusterctl.inventory import nodeset

    loaded = named(inventory, "nothing to validate, commands would use")
    names = [node.name for node in loaded.nodes]
    groups = sorted({group for node in loaded.nodes for group in node.groups})
    if as_json:
        console.emit_json(
            InventoryValidation(source=loaded.source, nodes=tuple(names), groups=tuple(groups)).document()
        )
    elif loaded.source is None:
        console.talk(
            "hint: give an inventory file, or write one with: clusterctl inventory init root@gpu[01-16]"
        )
    else:
        count = f"{counted(len(names), 'node')}"
        of_groups = f"; groups: {', '.join(groups)}" if groups else ""
        console.data(f"{loaded.source}: valid: {count} ({nodeset.fold(names)}){of_groups}")
    raise typer.Exit(1 if loaded.source is None else 0)
