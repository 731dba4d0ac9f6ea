"""``run``: run one command on all nodes; nodes with the same output share a block."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterctl.cli import either_inventory, on_nodes
from clusterctl.cli import options as cli
from clusterctl.cli.named_inventory import LocalOption, to_change


def run(
    inventory: cli.InventoryArgument = None,
    *,
    inventory_option: cli.InventoryOption = None,
    local: LocalOption = False,
    command: on_nodes.CommandArgument,
    limit: cli.LimitOption = None,
    sudo: Annotated[bool, typer.Option("--sudo", help="Run the command as root.")] = False,
    timeout_s: on_nodes.TimeoutOption = 600.0,
    stream: on_nodes.StreamOption = False,
    max_output: on_nodes.MaxOutputOption = on_nodes.MOST_BYTES >> 10,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    as_json: cli.JsonOption = False,
) -> None:
    """Run a command on every node.

    Nodes with the same output share a block. 'exec' does the same in the containers that 'up' started.

    Exit code 0: the command returned 0 on all nodes; 1: on some it did not, or some have no result; 5: no node could
    be reached.
    """
    from clusterctl.cli.session import open_session
    from clusterctl.documents.command import Run

    cli.require_seconds(timeout_s)
    on_nodes.refuse_both(stream=stream, as_json=as_json)
    given = either_inventory.one(inventory, inventory_option)
    chosen = to_change(given, verb="run", local=local, action="run the command on")
    session = open_session(chosen, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    work = on_nodes.Work(tuple(command), timeout_s, sudo, stream, max_output << 10)
    raise typer.Exit(on_nodes.carry_out(session, work, Run, as_json=as_json))
