"""``down``: remove the containers of an ``up``, with their keys and their inventory."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.cli.terminal import interrupt

RunOption = Annotated[
    str | None,
    typer.Option(
        "--run", metavar="RUN", help="The run of 'up'; default: the only run with running containers."
    ),
]


def down(
    *,
    run_name: RunOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also forget the containers of unreachable nodes.")
    ] = False,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Remove what 'up' started: containers, keys and files.

    If no containers are up, nothing is removed and the command succeeds.

    Exit code 0: all removed; 5: a node is unreachable (repeat later, or use --force); 10: a container cannot be
    removed.
    """
    from clusterctl.cli.live_steps import LiveNodes
    from clusterctl.cli.session import say_failures, session_of
    from clusterctl.cli.terminal.progress import Progress
    from clusterctl.containers import record as containers_record
    from clusterctl.containers import up as containers_up
    from clusterctl.documents.containers import Down, NotRemoved
    from clusterctl.rundir import RunDir, default_root
    from clusterctl.transport.base import FailureKind

    if run_name is None and containers_record.none_up(runs):
        if as_json:
            console.emit_json(Down(run=None, removed=0, failed=()).document())
        console.talk(f"nothing to remove: no containers are recorded as running in {runs or default_root()}")
        return
    # A failed up may have left containers without writing their inventory: the name of the run is enough.
    run = containers_record.those_up(None, runs) if run_name is None else RunDir.open(run_name, runs, ("up",))
    inventory = containers_up.nodes_of(run)
    session = session_of(inventory, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    left = "Nodes that are done have no container of this run any more."
    with (
        interrupt.explained(left, "To continue"),
        Progress("Removing containers", len(inventory.nodes), "nodes") as progress,
    ):
        outcome = containers_up.take_down(
            inventory, session.connected(), run, fanout=session.fanout, force=force, watch=LiveNodes(progress)
        )
    removed = sum(outcome.values_by_node.values())
    failures = outcome.failures
    if as_json:
        console.emit_json(
            Down(
                run=run.id,
                removed=removed,
                failed=tuple(NotRemoved(name=name, error=f.message) for name, f in failures.items()),
            ).document()
        )
    else:
        console.talk(f"{removed} containers of {run.id} removed")
    say_failures(failures)
    if failures and not force:
        console.talk(
            "hint: repeat clusterctl down when these nodes are reachable, or forget their containers with --force"
        )
    away = all(failure.kind is not FailureKind.ERROR for failure in failures.values())
    raise typer.Exit(0 if not failures or force else 5 if away else 10)
