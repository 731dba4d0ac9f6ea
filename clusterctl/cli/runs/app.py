"""``runs``: combine its subcommands, each from the module that owns it."""

from __future__ import annotations

import typer

from clusterctl.cli.runs import listing, removal

app = typer.Typer(help="List, show, label and remove earlier runs of all commands.", no_args_is_help=True)
app.command("list")(listing.list_runs)
app.command("show")(listing.show)
app.command("label")(listing.label)
app.command("rm")(removal.rm)
app.command("prune")(removal.prune)
