"""``undo``: restore the state before a bootstrap, from each node's own journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl.cli import console, plan_output
from clusterctl.cli import options as cli
from clusterctl.cli.named_inventory import LocalOption, to_change
from clusterctl.cli.terminal import interrupt
from clusterctl.grouping import grouped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterctl.apply.undo import Undo, UndoOutcome
    from clusterctl.inventory.model import Node
    from clusterctl.transport.base import Failure, HostMap


def undo(
    inventory: cli.InventoryArgument = None,
    local: LocalOption = False,
    run: Annotated[
        str | None,
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
    label: cli.LabelOption = None,
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
    from clusterctl.cli.live_steps import LiveNodes
    from clusterctl.cli.session import open_session, say_failures
    from clusterctl.cli.terminal.progress import Progress, share
    from clusterctl.cli.undo.named_run import refuse_unknown, run_id
    from clusterctl.inventory.recorded import recorded
    from clusterctl.report.text import undo as undo_text
    from clusterctl.rundir import RunDir, default_root, require_label

    require_label(label)
    runs = runs or default_root(inventory)
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
    with interrupt.changes_nothing(), Progress("Reading journals", len(nodes), "nodes") as progress:
        outcomes = work.list(nodes, LiveNodes(progress))
        session.refuse_wrong_password()
        progress.done = f"Read the journals of {share(len(outcomes.values_by_node), len(nodes), 'node')}"
    if run is not None and wanted is not None:
        refuse_unknown(wanted, outcomes, Path(run), runs / wanted)
    undone = {
        name: o.run for name, o in outcomes.values_by_node.items() if o.run is not None and not o.nothing
    }
    listed = {name: outcome for name, outcome in outcomes.values_by_node.items() if name in undone}
    asks = not dry_run and bool(undone) and not yes
    if undone:
        _show_plan(listed, on_stdout=not as_json, on_screen=asks)
    declined = asks and not console.confirm(f"Undo on {len(undone)} node{'s' if len(undone) > 1 else ''}?")
    folder = None
    if not dry_run and undone and not declined:
        folder = RunDir.create("undo", runs, label)
        folder.write("inventory", recorded(session.inventory))
        outcomes = _undone(work, nodes, undone, outcomes)
    document = document_of(outcomes)
    if folder is not None:
        folder.write("report", document)
        console.talk(f"run folder: {folder.path}")
    if declined:
        console.talk("nothing was changed")
    lost = {name: o.failure for name, o in outcomes.values_by_node.items() if o.failure is not None}
    lost = {**outcomes.failures, **lost}
    if as_json:
        console.emit_json(document)
        say_failures(lost)
    elif not declined:
        done_text = "" if dry_run else undo_text.done(listed, outcomes.values_by_node, console.width())
        console.data(_text(document, done_text, lost, after_plan=bool(undone)), look="plan")
    raise typer.Exit(1 if declined else exit_code(document))


def _undone(
    work: Undo, nodes: tuple[Node, ...], runs: dict[str, str], listed: HostMap[UndoOutcome]
) -> HostMap[UndoOutcome]:
    """Undo on each node the run that ``runs`` names; return the outcomes of all nodes."""
    from clusterctl.cli.live_steps import LiveSteps

    live = LiveSteps()
    steps = sum(len(listed.values_by_node[name].steps) for name in runs)
    left = "Each node finishes its current step and starts no other."
    with interrupt.explained(left, "To continue"), live.phase("Undoing changes", "Undid", steps, len(runs)):
        done = work.execute(nodes, runs, live)
    return type(listed)({**dict(listed.items()), **dict(done.items())})


def _show_plan(listed: Mapping[str, UndoOutcome], *, on_stdout: bool, on_screen: bool) -> None:
    """Show what undo will do; ``on_screen``: a question follows that the plan must precede."""
    from clusterctl.report.text import undo as undo_text

    if on_stdout or on_screen:
        plan_output.show(undo_text.planned(listed, console.width()), on_stdout=on_stdout, on_screen=on_screen)


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


def _text(document: dict[str, Any], done: str, lost: Mapping[str, Failure], *, after_plan: bool) -> str:
    """Return the end of the report: what was undone, failed steps and nodes, nodes without changes, and the counts."""
    from clusterctl.inventory import nodeset
    from clusterctl.report.text.failures import failure_lines, step_lines
    from clusterctl.report.text.wrapping import wrapped_message

    told = []
    for node in document["nodes"]:
        for step in node["steps"]:
            if step["status"] == "failed":
                told.append((node["name"], step, step.get("reason", "failed")))
            if step["status"] != "planned":
                told += [(node["name"], step, f"note: {note}") for note in step.get("notes", ())]
    nothing = grouped((node["nothing"], node["name"]) for node in document["nodes"] if node["nothing"])
    summary = ", ".join(f"{word}: {count}" for word, count in document["summary"].items())
    lines = [f"{nodeset.fold(names)}: {why}" for why, names in nothing.items()]
    failed = wrapped_message("\n".join([*step_lines(told), *lines, *failure_lines(lost)]), console.width())
    blocks = filter(None, [done, failed, summary])
    return ("\n" if after_plan else "") + "\n\n".join(blocks)
