"""``undo``: restore the state before a bootstrap, from each node's own journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.cli.named_inventory import LocalOption, to_change

if TYPE_CHECKING:
    from clusterctl.apply.undo import UndoOutcome
    from clusterctl.transport.base import HostMap


def undo(
    inventory: cli.InventoryArgument = None,
    local: LocalOption = False,
    run: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--run",
            metavar="RUN",
            help="The run to undo: its id, a unique part of it, or 'latest'; default: the latest run of each node.",
        ),
    ] = None,
    limit: cli.LimitOption = None,
    dry_run: cli.DryRunOption = False,
    yes: cli.YesOption = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also restore files that were changed by hand since.")
    ] = False,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Restore the state of the nodes before bootstrap changed them.

    Exit code 0: all changes undone, or nothing to undo; 1: a step failed, or a node unreachable; 5: all nodes
    unreachable.
    """
    from clusterctl import config
    from clusterctl.apply.journal import operator
    from clusterctl.apply.undo import Undo
    from clusterctl.cli.session import open_session, say_failures
    from clusterctl.cli.undo.named_run import refuse_unknown, run_id
    from clusterctl.rundir import default_root

    wanted = run_id(run, runs)
    chosen = to_change(inventory, verb="undo", local=local, dry_run=dry_run, assume_yes=yes)
    session = open_session(chosen, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    work = Undo(
        connect=session.connect,
        fanout=session.fanout,
        timeout_s=config.resolve(config.APPLY_TIMEOUT_S).value,
        operator=operator(),
        run=wanted,
        force=force,
    )
    nodes = session.inventory.nodes
    outcomes = work.list(nodes)
    if run is not None and wanted is not None:
        refuse_unknown(wanted, outcomes, Path(run), (runs or default_root()) / wanted)
    undone = {
        name: o.run for name, o in outcomes.values_by_node.items() if o.run is not None and not o.nothing
    }
    if (not as_json or not yes) and undone:
        console.talk(_shown(outcomes))
    asks = not dry_run and bool(undone) and not yes
    declined = asks and not console.confirm(f"undo on {len(undone)} node{'s' if len(undone) > 1 else ''}?")
    if not dry_run and undone and not declined:
        try:
            done = work.execute(nodes, undone)
        except KeyboardInterrupt:
            console.talk(
                "Interrupted. Each node finishes its current step and starts no other. To continue, run undo again"
            )
            raise
        outcomes = type(outcomes)({**dict(outcomes.items()), **dict(done.items())})
    document = document_of(outcomes)
    if declined:
        console.talk("nothing was changed")
    if as_json:
        console.emit_json(document)
    elif not declined:
        console.data(_text(document))
    lost = {name: o.failure for name, o in outcomes.values_by_node.items() if o.failure is not None}
    say_failures({**outcomes.failures, **lost})
    raise typer.Exit(1 if declined else exit_code(document))


def _shown(outcomes: HostMap[UndoOutcome]) -> str:
    """Return the steps that undo would take; nodes with the same steps share a block."""
    from clusterctl.apply.execute import StepStatus
    from clusterctl.inventory import nodeset

    alike: dict[tuple[str, ...], list[str]] = {}
    for name, outcome in outcomes.values_by_node.items():
        if outcome.run is None or outcome.nothing:  # the result says why
            continue
        lines = [f"run {outcome.run}"]
        for step in outcome.steps:
            lines += [f"  {step.requirement}  {step.description}", *(f"    {note}" for note in step.notes)]
            if step.status is StepStatus.FAILED:
                lines.append(f"    cannot be undone: {step.reason}")
        alike.setdefault(tuple(lines), []).append(name)
    return "\n\n".join(
        "\n".join([f"{nodeset.fold(names)}: {lines[0]}", *lines[1:]]) for lines, names in alike.items()
    )


def document_of(outcomes: HostMap[UndoOutcome]) -> dict[str, Any]:
    """Return the undone (or planned) steps as a ``clusterctl.undo/1`` document."""
    from clusterctl.cli.bootstrap.command import step_part
    from clusterctl.documents.steps import StepSummary, Undo, UndoneNode
    from clusterctl.report.check_document import error_part
    from clusterctl.transport.base import Failure, FailureKind

    nodes: list[UndoneNode] = []
    summary = {"changed": 0, "failed": 0, "planned": 0, "unreachable": 0}
    for name, outcome in outcomes.items():
        failure = outcome if isinstance(outcome, Failure) else outcome.failure
        steps = () if isinstance(outcome, Failure) else tuple(step_part(step) for step in outcome.steps)
        for step in steps:
            if step.status.value in summary:
                summary[step.status.value] += 1
        # A node that answered is reachable, even if its lock or journal prevented the undo.
        lost = failure is not None and (isinstance(outcome, Failure) or failure.kind is not FailureKind.ERROR)
        summary["unreachable"] += lost
        nodes.append(
            UndoneNode(
                name=name,
                reachable=not lost,
                error=None if failure is None else error_part(failure),
                run=None if isinstance(outcome, Failure) else outcome.run,
                nothing="" if isinstance(outcome, Failure) else outcome.nothing,
                steps=steps,
            )
        )
    return Undo(nodes=tuple(nodes), summary=StepSummary(**summary)).document()


def exit_code(document: dict[str, Any]) -> int:
    """Return 0, 1 or 5 for a ``clusterctl.undo/1`` document."""
    summary = document["summary"]
    if summary["unreachable"] == len(document["nodes"]):
        return 5
    return 1 if summary["failed"] or any(node["error"] for node in document["nodes"]) else 0


def _text(document: dict[str, Any]) -> str:
    from clusterctl.inventory import nodeset
    from clusterctl.report.text.failures import step_lines

    told = []
    for node in document["nodes"]:
        for step in node["steps"]:
            if step["status"] == "failed":
                told.append((node["name"], step, step.get("reason", "failed")))
            if step["status"] != "planned":
                told += [(node["name"], step, f"note: {note}") for note in step.get("notes", ())]
    nothing: dict[str, list[str]] = {}
    for node in document["nodes"]:
        if node["nothing"]:
            nothing.setdefault(node["nothing"], []).append(node["name"])
    summary = ", ".join(f"{word}: {count}" for word, count in document["summary"].items())
    lines = [f"{nodeset.fold(names)}: {why}" for why, names in nothing.items()]
    return "\n".join([*step_lines(told), *lines, summary])
