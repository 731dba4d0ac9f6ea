"""``exec``: run one command in all containers; containers with the same output share a block."""

from __future__ import annotations

import typer

from clusterctl.cli import on_nodes
from clusterctl.cli import options as cli
from clusterctl.cli.down import RunOption


def execute(
    *,
    command: on_nodes.CommandArgument,
    limit: cli.LimitOption = None,
    run_name: RunOption = None,
    timeout_s: on_nodes.TimeoutOption = 600.0,
    stream: on_nodes.StreamOption = False,
    max_output: on_nodes.MaxOutputOption = on_nodes.MOST_BYTES >> 10,
    fanout: cli.FanoutOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Run a command in the containers that 'up' started.

    Containers with the same output share a block. 'run' does the same on the nodes.

    Exit code 0: the command returned 0 in all containers; 1: in some it did not, or some have no result; 5: no
    container could be reached.
    """
    from clusterctl.cli.containers_session import containers_session
    from clusterctl.documents.command import Exec

    cli.require_seconds(timeout_s)
    on_nodes.refuse_both(stream=stream, as_json=as_json)
    session = containers_session(run_name, runs, limit=limit, fanout=fanout)
    work = on_nodes.Work(tuple(command), timeout_s, False, stream, max_output << 10)
    raise typer.Exit(on_nodes.carry_out(session, work, Exec, as_json=as_json))
