"""``results``: combine its subcommands, each from the module that owns it."""

from __future__ import annotations

import typer

from clusterctl.cli.option_groups import with_groups
from clusterctl.cli.results import baseline as results_baseline
from clusterctl.cli.results import exchange as results_exchange
from clusterctl.cli.results import runs as results

app = typer.Typer(help="List, show, compare and export what earlier runs measured.", no_args_is_help=True)
app.command("list")(with_groups(results.list_runs))
app.command("show")(results.show)
app.command("compare")(results.compare_runs)
app.command("export")(with_groups(results_exchange.export))
app.command("import")(results_exchange.import_runs)
app.add_typer(results_baseline.app, name="baseline")
