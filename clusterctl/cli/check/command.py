"""``check``: compare the state of each node with its requirements, without changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from clusterctl.cli import console, next_command, report_files
from clusterctl.cli import options as cli
from clusterctl.cli.check import output
from clusterctl.report.check_document import exit_code, strictly


def check(
    inventory: cli.InventoryArgument = None,
    limit: cli.LimitOption = None,
    only: cli.OnlyOption = None,
    skip: cli.SkipOption = None,
    junit: cli.JunitOption = None,
    prometheus: cli.PrometheusOption = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write a page of the fleet, in one HTML file."),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Also exit with 1 for drift (a node that differs from most of its kind)."
        ),
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="DIR",
            help="Record the raw output of each node, without secrets; also as DIR.tar.gz.",
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", metavar="DIR", help="Check a recording instead of nodes; contacts no node."),
    ] = None,
    drain: cli.DrainOption = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also list the requirements that are met or not applicable.")
    ] = False,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    label: cli.LabelOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Check every node against every requirement; change nothing.

    The table lists what is unmet or unknown. Requirements that are met or not applicable are only named.

    Exit code 0: all requirements met or not applicable; 1: a requirement unmet or unknown, a node unreachable, or
    drift with --strict; 5: all nodes unreachable.
    """
    from clusterctl.cli import draining
    from clusterctl.cli.check.run import Contact, replayed
    from clusterctl.errors import UsageError
    from clusterctl.rundir import default_root
    from clusterctl.views.next_step import after_check

    wanted, unwanted = cli.requirement_names(only), cli.requirement_names(skip)
    if wanted is not None or unwanted:
        from clusterctl.requirements import judge

        judge.validate_names(wanted, unwanted or ())
    runs = runs or default_root(inventory)
    report_files.refuse_unwritable(junit, prometheus, html)
    if replay is not None:
        if inventory is not None or record is not None or drain is not None:
            raise UsageError(
                "--replay uses the inventory and the answers of the recording",
                hint="leave out INVENTORY, --record and --drain",
            )
        judged = replayed(replay, limit, wanted, unwanted)
    else:
        draining.require(drain)
        contact = Contact(inventory, limit, fanout, accept_new_host_keys, runs, label)
        judged = contact.check(wanted, unwanted or (), record)
    if strict:
        checked = strictly(judged.checked)
        failed = [one.model_dump(mode="json") for one in checked.strict or ()]
        judged = replace(judged, checked=checked, document={**judged.document, "strict": failed})
    way = next_command.way(inventory, limit, only, skip, runs=runs, is_local=judged.this_machine)
    # A recording may be of nodes that this machine cannot reach.
    following = list(after_check(judged.verdicts, way if replay is None else None))
    view = output.view(judged, following, every=every, for_page=html is not None)
    output.CheckReports(junit, prometheus, html).write(view)
    if as_json:
        from clusterctl.cli.session import say_failures, say_without_root

        console.emit_json(judged.document | ({} if judged.run is None else {"run": judged.run}))
        say_failures(judged.verdicts.failures)
        say_without_root(judged.facts, judged.verdicts)
    else:
        console.show(view)
    if html is not None:
        console.talk(f"report: {html}")
    if judged.run is not None:
        draining.apply(drain, draining.of_check(judged.verdicts), judged.run, as_json=as_json)
        console.talk(f"run folder: {runs / judged.run}")
    raise typer.Exit(exit_code(judged.checked))
