"""``runs``: combine its subcommands, each from the module that owns it."""

from __future__ import annotations

import typer

from clusterctl.cli.option_groups import with_groups
from clusterctl.cli.runs import baseline, comparing, exchange, listing, removal

app = typer.Typer(
    help="List, show, compare, export, label and remove runs of all commands.", no_args_is_help=True
)
app.command("list")(with_groups(listing.list_runs))
app.command("show")(listing.show)
app.command("compare")(comparing.compare_runs)
app.add_typer(baseline.app, name="baseline")
app.command("export")(with_groups(exchange.export))
app.command("import")(exchange.import_runs)
app.command("label")(listing.label)
app.command("rm")(removal.rm)
app.command("prune")(removal.prune)
