"""Load the inventory that a command line names; without one, report or ask that this machine is used."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli.terminal import interrupt
from clusterctl.errors import UsageError
from clusterctl.text import typed_inventory

if TYPE_CHECKING:
    from clusterctl.inventory.model import Inventory
    from clusterctl.rundir import RunDir

LocalOption = Annotated[
    bool, typer.Option("--local", help="Act on this machine, without an inventory and without SSH.")
]


def named(inventory: Path | None, action: str = "using") -> Inventory:
    """Return the inventory; without one this machine, with a message on stderr (``action`` this machine)."""
    from clusterctl.inventory import load

    loaded = load.load(inventory)
    if loaded.source is None:
        console.talk(f"no ./inventory.yaml: {action} this machine")
    return loaded


def of_run(run: RunDir) -> AbstractContextManager[None]:
    """Let commands to paste name the inventory of a recorded run, as it was typed."""
    from clusterctl.inventory import load
    from clusterctl.runs import outcome

    source = outcome.source(run)
    return typed_inventory.named(None if source in (None, str(load.DEFAULT_FILE)) else Path(source))


def to_change(
    inventory: Path | None,
    *,
    verb: str,
    local: bool,
    dry_run: bool = False,
    assume_yes: bool = False,
    action: str | None = None,
) -> Inventory:
    """Return the inventory of a command that changes nodes; this machine only if that was asked for.

    Without an inventory, ask on a terminal. ``action`` replaces the verb
    in the question. Raise UsageError without a terminal, Exit if the user declines.
    """
    from clusterctl.inventory import load
    from clusterctl.inventory.discover import this_machine

    if local:
        if inventory is not None:
            raise UsageError("--local and an inventory cannot be combined", hint="leave one of them out")
        return this_machine()
    if dry_run:
        return named(inventory, "planning for")
    loaded = load.load(inventory)
    if loaded.source is None:
        if assume_yes or not console.is_attended():
            raise UsageError(
                "no inventory was given, and ./inventory.yaml does not exist",
                hint=f"give an inventory (clusterctl {verb} INVENTORY), or change this machine with --local",
            )
        if not interrupt.asked(
            f"no ./inventory.yaml: {action or verb} this machine, {socket.gethostname()}?"
        ):
            console.talk("nothing was changed")
            raise typer.Exit(1)
    return loaded
