"""``render slurm-healthcheck``: print the script that keeps Slurm's jobs off a faulty node."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterctl.cli import options as cli
from clusterctl.cli.render.output import emit
from clusterctl.documents.accept import Tier


def slurm_healthcheck(
    *,
    tier: Annotated[
        Tier, typer.Option("--tier", help="Run the rows of this tier and of the cheaper ones.")
    ] = Tier.SANITY,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ROW,..", help="Only these rows.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="ROW,..", help="All rows except these.")
    ] = None,
    json: cli.JsonOption = False,
) -> None:
    """Print a script for Slurm's Prolog and HealthCheckProgram.

    It runs accept on the node itself and drains a node on which a row failed. slurmd allows 60 seconds.
    """
    from clusterctl.acceptance.catalog import ROWS
    from clusterctl.acceptance.choose import chosen
    from clusterctl.artifacts.slurm_healthcheck import script

    wanted, unwanted = cli.names(only), cli.names(skip)
    chosen(ROWS, tier, wanted, unwanted or ())
    words = ["--tier", tier.value] if wanted is None else ["--only", ",".join(wanted)]
    words += ["--skip", ",".join(unwanted)] if unwanted else []
    emit("slurm-healthcheck", script(words), json)
