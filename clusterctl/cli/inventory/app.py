"""``inventory``: write, check, show and import inventories."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.cli.inventory.importing import import_inventory
from clusterctl.cli.inventory.init import init
from clusterctl.errors import UsageError
from clusterctl.text.wording import counted


def forget_host_keys(
    inventory: cli.InventoryArgument = None,
    limit: cli.LimitOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Remove the recorded host keys of nodes that were reinstalled; contact no node.

    The nodes are named with --limit. All other lines of the files stay as they are. On a terminal, the next command
    that connects to the nodes shows their new keys and asks whether to record them.

    Exit code 0: the keys were removed, or there were none.
    """
    from pathlib import Path

    from clusterctl.cli.named_inventory import named
    from clusterctl.documents.inventory import ForgottenFile, HostKeysForgotten
    from clusterctl.inventory import nodeset
    from clusterctl.inventory.limit import limited
    from clusterctl.transport.ssh import config, host_keys
    from clusterctl.transport.ssh.target import names_in_known_hosts

    if not limit:
        raise UsageError(
            "no node was named",
            hint="name the reinstalled nodes: --limit 'gpu[01-16]'; all of them: --limit '*'",
        )
    chosen = limited(named(inventory, "using"), limit)
    nodes = [node for node in chosen.nodes if node.connection == "ssh"]
    places = names_in_known_hosts(nodes, config.lookup_in(config.config_files()))
    files: list[ForgottenFile] = []
    had: set[str] = set()
    for file, names in places.items():
        found = host_keys.forget(Path(file), names)
        removed = tuple(node for name in found.names for node in names[name])
        had |= set(removed)
        if removed or found.patterns:
            files.append(
                ForgottenFile(file=file, nodes=removed, lines=found.lines, pattern_lines=found.patterns)
            )
    without = tuple(node.name for node in nodes if node.name not in had)
    if as_json:
        console.emit_json(HostKeysForgotten(files=tuple(files), without_key=without).document())
        return
    for one in files:
        if one.nodes:
            lines = counted(one.lines, "line")
            console.data(f"{one.file}: removed {lines}, the host keys of {nodeset.fold(one.nodes)}")
        for number in one.pattern_lines:
            console.talk(
                f"warning: {one.file}:{number} covers these nodes by a wildcard, and stays; edit it by hand"
            )
    if without:
        console.data(f"no recorded host key: {nodeset.fold(without)}")


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
    from clusterctl.views import inventory as view_of

    loaded = load.read(inventory)
    if loaded.inventory.source is None:
        console.talk("no ./inventory.yaml: showing this machine")
    document = document_of(
        limited(loaded.inventory, nodes, option="NODE"), Provenance(loaded), defaults=defaults
    )
    view = view_of.listing if nodes is None and not defaults else view_of.settings
    console.result(document, lambda: view(document), as_json=as_json)


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


app = typer.Typer(help="Write, check, show and import inventories.", no_args_is_help=True)
app.command("init")(init)
app.command("validate")(validate)
app.command("show")(show)
app.command("import")(import_inventory)
app.command("forget-host-keys")(forget_host_keys)
