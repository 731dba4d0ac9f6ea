"""``requirements``: describe what a node must be, without contacting a node."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli.options import JsonOption

app = typer.Typer(help="Describe the requirements: what is checked, why, and the fix.", no_args_is_help=True)


@app.command("list")
def list_requirements(as_json: JsonOption = False) -> None:
    """List all requirements in the order in which they are checked and applied."""
    from clusterctl.report.requirements_document import document_of
    from clusterctl.requirements.catalog import ALL
    from clusterctl.views import requirements as view_of

    document = document_of(ALL)
    console.result(document, lambda: view_of.listing(document["requirements"]), as_json=as_json)


@app.command()
def show(
    names: Annotated[
        list[str],
        typer.Argument(metavar="REQUIREMENT...", help="Requirements, as 'requirements list' names them."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Show what a requirement checks, why, what bootstrap and undo do, and its settings in the inventory."""
    from clusterctl.cli import options
    from clusterctl.report.requirements_document import document_of
    from clusterctl.requirements import judge
    from clusterctl.views import requirements as view_of

    wanted = options.names(names) or ()
    judge.validate_names(wanted, ())
    document = document_of(dict.fromkeys(wanted))
    console.result(document, lambda: view_of.pages(document["requirements"]), as_json=as_json)
