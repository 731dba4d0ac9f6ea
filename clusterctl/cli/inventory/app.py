"""``inventory``: write, check, show and import inventories."""

from __future__ import annotations

import typer

from clusterctl.cli.inventory.forgetting import forget_host_keys
from clusterctl.cli.inventory.importing import import_inventory
from clusterctl.cli.inventory.init import init
from clusterctl.cli.inventory.show import show
from clusterctl.cli.inventory.validate import validate

app = typer.Typer(help="Write, check, show and import inventories.", no_args_is_help=True)
app.command("init")(init)
app.command("validate")(validate)
app.command("show")(show)
app.command("import")(import_inventory)
app.command("forget-host-keys")(forget_host_keys)
