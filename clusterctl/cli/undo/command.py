"""``undo``: restore the state before a bootstrap, from each node's own journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl.cli import console, next_command, plan_output
from clusterctl.cli import options as cli
from clusterctl.cli.named_inventory import LocalOption, to_change
from clusterctl.cli.terminal import interrupt
from clusterctl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterctl.apply.undo import Undo, UndoOutcome
    from clusterctl.inventory.model import Inventory, Node
    from clusterctl.transport.base import Failure, HostMap


def undo(
    inventory: cli.InventoryArgument = None,
    local: LocalOption = False,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="The run to undo: its id, a unique part of it, or 'latest'; default: the newest run of the nodes.",
        ),
    ] = None,
    each: Annotated[
        bool,
        typer.Option("--each", help="Undo the latest run of each node, even if these are different runs."),
    ] = False,
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

    Without --run and --each, undo takes back the newest run of the nodes that has not been undone, and nothing older.

    Exit code 0: all changes undone, or nothing to undo; 1: a step failed, or a node unreachable; 5: all nodes
    unreachable.
    """
    from clusterctl import config
    from clusterctl.apply.journal import operator
    from clusterctl.apply.undo import Undo, newest
    from clusterctl.cli.live_steps import LiveNodes
    from clusterctl.cli.session import open_session, say_failures
    from clusterctl.cli.terminal.progress import Progress, share
    from clusterctl.cli.undo.named_run import refuse_unknown, run_id
    from clusterctl.inventory.recorded import recorded
    from clusterctl.rundir import RunDir, default_root, require_label
    from clusterctl.runs import counts

    require_label(label)
    runs = runs or default_root(inventory)
    wanted = run_id(run, runs, each=each)
    chosen = to_change(inventory, verb="undo", local=local, dry_run=dry_run, assume_yes=yes)
    session = open_session(chosen, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    work = Undo(
        connect=session.connected(),
        fanout=session.fanout,
        timeout_s=config.resolve(config.APPLY_TIMEOUT_S).value,
        operator=operator(),
        run=wanted,
        force=force,
    )
    nodes = session.inventory.nodes
    with interrupt.changes_nothing(), Progress("Reading journals", len(nodes), "nodes") as progress:
        read = work.list if each or wanted is not None else work.list_newest
        outcomes = read(nodes, LiveNodes(progress))
        session.refuse_wrong_password()
        progress.done = (
            f"Read the journals of {share(len(nodes) - len(_failures(outcomes)), len(nodes), 'node')}"
        )
    if run is not None and wanted is not None:
        refuse_unknown(wanted, outcomes, Path(run), runs / wanted)
    undone = {
        name: o.run for name, o in outcomes.values_by_node.items() if o.run is not None and not o.nothing
    }
    one = wanted if each or wanted is not None else newest(outcomes)
    asks = not dry_run and bool(undone) and not yes
    if undone and (asks or not as_json):
        text = _plan(outcomes, undone, session.inventory, None if each or run is not None else one)
        plan_output.show(text, on_stdout=not as_json, on_screen=asks)
    declined = asks and not interrupt.asked(f"Undo on {counted(len(undone), 'node')}?")
    folder, before = None, outcomes
    if not dry_run and undone and not declined:
        folder = RunDir.create("undo", runs, label)
        folder.write("inventory", recorded(session.inventory))
        outcomes = _undone(work, nodes, undone, outcomes)
    document = document_of(outcomes, one)
    if folder is not None:
        folder.write("report", document)
        console.talk(f"run folder: {folder.path}")
    if as_json:
        console.emit_json(document)
        say_failures(_failures(outcomes))
    elif not declined:
        shown = before if undone else None
        text = _text(document, outcomes, shown, session.inventory, dry_run=dry_run, asked=asks)
        console.data(text, look="plan")
    _say_end(declined=declined, planned=dry_run and bool(undone), asks=not yes)
    raise typer.Exit(1 if declined else counts.exit_code(document))


def _say_end(*, declined: bool, planned: bool, asks: bool) -> None:
    """Print that a person declined, or the command that carries out what a dry run planned."""
    if declined:
        console.talk("nothing was changed")
    if planned:
        why = "shows this plan, and asks" if asks else "carries out this plan"
        next_command.say(interrupt.command_line(without="--dry-run"), why)


def _failures(outcomes: HostMap[UndoOutcome]) -> dict[str, Failure]:
    lost = {name: o.failure for name, o in outcomes.values_by_node.items() if o.failure is not None}
    return {**outcomes.failures, **lost}


def _undone(
    work: Undo, nodes: tuple[Node, ...], runs: dict[str, str], listed: HostMap[UndoOutcome]
) -> HostMap[UndoOutcome]:
    """Undo on each node the run that ``runs`` names; return the outcomes of all nodes."""
    from clusterctl.apply.undo import with_unreached
    from clusterctl.cli.live_steps import LiveUndo
    from clusterctl.report.text import undo as undo_text

    working = {name: undo_text.working(listed.values_by_node[name]) for name in runs}
    live = LiveUndo(working)
    steps = undo_text.size({name: listed.values_by_node[name] for name in runs})
    left = "Each node finishes its current step and starts no other."
    with interrupt.explained(left, "To continue"), live.phase("Undoing changes", "Undid", steps, len(runs)):
        done = work.execute(nodes, runs, live)
    ended = {name: with_unreached(listed.values_by_node[name], one) for name, one in done.items()}
    return type(listed)({**dict(listed.items()), **ended})


def _again(inventory: Inventory) -> tuple[str, ...]:
    """Return the words of an undo of the same inventory."""
    return ("clusterctl", "undo", inventory.source or "--local")


def _plan(
    outcomes: HostMap[UndoOutcome], undone: Mapping[str, str], inventory: Inventory, newest_run: str | None
) -> str:
    """Return what undo will do, on which nodes there is nothing to undo, and which nodes could not be read.

    ``newest_run`` is the run that was found to be the newest one of the nodes; None if it was not searched.
    """
    from clusterctl.report.text import undo as undo_text
    from clusterctl.report.text.failures import failure_lines
    from clusterctl.report.text.wrapping import wrapped_message

    found = outcomes.values_by_node
    failures = _failures(outcomes)
    lines = [*undo_text.nothing_lines(found, _again(inventory)), *failure_lines(failures)]
    if newest_run is not None:
        beyond = [node.name for node in inventory.beyond]
        lines += filter(None, [undo_text.unread_line(newest_run, list(failures), beyond)])
    more = wrapped_message("\n".join(lines), console.width())
    return undo_text.planned(
        {name: found[name] for name in undone}, console.width(), more, every=console.verbose()
    )


def document_of(outcomes: HostMap[UndoOutcome], run: str | None = None) -> dict[str, Any]:
    """Return the undone (or planned) steps as a ``clusterctl.undo/1`` document; ``run`` is the run of all nodes."""
    from clusterctl.cli.bootstrap.command import step_part
    from clusterctl.documents.steps import Undo, UndoneNode, status_of, summary_of
    from clusterctl.report.check_document import error_part
    from clusterctl.transport.base import Failure

    nodes: list[UndoneNode] = []
    for name, outcome in outcomes.items():
        found = None if isinstance(outcome, Failure) else outcome
        failure = outcome if isinstance(outcome, Failure) else outcome.failure
        steps = () if found is None else tuple(step_part(step) for step in found.steps)
        # A node that answered is reachable, even if its lock, its journal or sudo prevented the undo.
        reachable = failure is None or failure.kind.answered
        error = None if failure is None else error_part(failure)
        nodes.append(
            UndoneNode(
                name=name,
                status=status_of(steps, reachable=reachable, error=error),
                reachable=reachable,
                error=error,
                run=None if found is None else found.run,
                nothing="" if found is None else found.nothing,
                older=None if found is None else found.older,
                steps=steps,
            )
        )
    return Undo(run=run, nodes=tuple(nodes), summary=summary_of(nodes)).document()


def _text(
    document: Mapping[str, Any],
    outcomes: HostMap[UndoOutcome],
    planned: HostMap[UndoOutcome] | None,
    inventory: Inventory,
    *,
    dry_run: bool,
    asked: bool,
) -> str:
    """Return the end of the report: what was undone, failed steps and nodes, and the counts.

    ``planned`` are the outcomes that the plan has shown; None without a plan. What it said is not repeated.
    """
    from clusterctl.report.text import undo as undo_text
    from clusterctl.report.text.failures import failure_lines, step_lines
    from clusterctl.report.text.wrapping import wrapped_message
    from clusterctl.runs import counts

    told = []
    for node in document["nodes"]:
        for step in node["steps"]:
            if step["status"] == "failed":
                told.append((node["name"], step, step.get("reason", "failed")))
            if step["status"] != "planned":
                told += [
                    (node["name"], step, undo_text.note_line(note, every=console.verbose()))
                    for note in step.get("notes", ())
                ]
    found = outcomes.values_by_node
    said = {} if planned is None else _failures(planned)
    new = {name: failure for name, failure in _failures(outcomes).items() if name not in said}
    nothing = () if planned is not None else undo_text.nothing_lines(found, _again(inventory))
    done = ""
    if planned is not None and not dry_run:
        seen = asked and console.width() is not None
        done = undo_text.done(planned.values_by_node, found, console.width(), seen=seen)
    lines = [*step_lines(told), *nothing, *failure_lines(new)]
    failed = wrapped_message("\n".join(lines), console.width())
    blocks = filter(None, [done, failed, counts.line(document)])
    return ("\n" if planned is not None else "") + "\n\n".join(blocks)
