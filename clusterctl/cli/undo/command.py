"""``undo``: restore the state before a bootstrap, from each node's own journal."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl import run_ids
from clusterctl.cli import console, next_command, plan_output
from clusterctl.cli import options as cli
from clusterctl.cli.named_inventory import LocalOption, to_change
from clusterctl.cli.terminal import interrupt
from clusterctl.errors import UsageError
from clusterctl.report.line import TonedLine
from clusterctl.rundir import RunDir, is_run_folder
from clusterctl.text.grouping import grouped
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from clusterctl.apply.undo import Undo, UndoOutcome
    from clusterctl.inventory.model import Inventory, Node
    from clusterctl.transport.base import HostMap


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
    from clusterctl.inventory.recorded import recorded
    from clusterctl.rundir import RunDir, default_root, require_label
    from clusterctl.runs import counts
    from clusterctl.views.undo import failures_of

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
            f"Read the journals of {share(len(nodes) - len(failures_of(outcomes)), len(nodes), 'node')}"
        )
    if run is not None and wanted is not None:
        refuse_unknown(wanted, outcomes, Path(run), runs / wanted)
    undone = {
        name: o.run for name, o in outcomes.values_by_node.items() if o.run is not None and not o.nothing
    }
    one = wanted if each or wanted is not None else newest(outcomes)
    asks = not dry_run and bool(undone) and not yes
    if undone and (asks or not as_json):
        searched = None if each or run is not None else one
        plan_output.show(_plan(outcomes, session.inventory, searched), on_stdout=not as_json, on_screen=asks)
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
        say_failures(failures_of(outcomes))
    elif not declined:
        shown = before if undone else None
        console.data(_end(outcomes, shown, session.inventory, counts.line(document), asked=asks))
    _say_end(declined=declined, planned=dry_run and bool(undone), asks=not yes)
    raise typer.Exit(1 if declined else counts.exit_code(document))


def _say_end(*, declined: bool, planned: bool, asks: bool) -> None:
    """Print that a person declined, or the command that carries out what a dry run planned."""
    if declined:
        console.talk("nothing was changed")
    if planned:
        why = "shows this plan, and asks" if asks else "carries out this plan"
        next_command.say(interrupt.command_line(without="--dry-run"), why)


def _undone(
    work: Undo, nodes: tuple[Node, ...], runs: dict[str, str], listed: HostMap[UndoOutcome]
) -> HostMap[UndoOutcome]:
    """Undo on each node the run that ``runs`` names; return the outcomes of all nodes."""
    from clusterctl.apply.undo import with_unreached
    from clusterctl.cli.live_steps import LiveUndo
    from clusterctl.views import undo as view_of

    working = {name: view_of.working(listed.values_by_node[name]) for name in runs}
    live = LiveUndo(working)
    steps = view_of.size({name: listed.values_by_node[name] for name in runs})
    left = "Each node finishes its current step and starts no other."
    with interrupt.explained(left, "To continue"), live.phase("Undoing changes", "Undid", steps, len(runs)):
        done = work.execute(nodes, runs, live)
    ended = {name: with_unreached(listed.values_by_node[name], one) for name, one in done.items()}
    return type(listed)({**dict(listed.items()), **ended})


def _again(inventory: Inventory) -> tuple[str, ...]:
    """Return the words of an undo of the same inventory."""
    return ("clusterctl", "undo", inventory.source or "--local")


def _plan(outcomes: HostMap[UndoOutcome], inventory: Inventory, newest: str | None) -> list[TonedLine]:
    """Return the plan; ``newest`` is the run that was found to be the newest one of the nodes (None: not searched)."""
    from clusterctl.report.text import of_view
    from clusterctl.views import undo as view_of

    beyond = [node.name for node in inventory.beyond]
    plan = view_of.plan(outcomes, _again(inventory), newest, beyond, every=console.verbose())
    return of_view.lines(plan, console.width())


def _end(
    outcomes: HostMap[UndoOutcome],
    planned: HostMap[UndoOutcome] | None,
    inventory: Inventory,
    counts: str,
    *,
    asked: bool,
) -> list[TonedLine]:
    """Return the end of the report; ``planned`` are the outcomes that the plan has shown (None: no plan)."""
    from clusterctl.report.text import of_view
    from clusterctl.views import undo as view_of

    width = console.width()
    seen = asked and width is not None
    again, every = _again(inventory), console.verbose()
    end = of_view.lines(view_of.ended(outcomes, planned, again, counts, seen=seen, every=every), width)
    return end if planned is None else [TonedLine(""), *end]


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


_TOLD = 5


def run_id(run: str | None, runs: Path | None, *, each: bool = False) -> str | None:
    """Return the id of a run that is given by its id, by a unique part of it, by ``latest``, or by its path.

    A whole id needs no run folder, because the nodes have the journals: another machine may have made the run. Raise
    UsageError if ``each`` (the latest run of each node) is wanted as well.
    """
    if run is None:
        return None
    if each:
        raise UsageError("--each and --run cannot be combined", hint="leave one of them out")
    name = run.rstrip("/").rpartition("/")[2]
    if run_ids.is_id(name):
        if run_ids.verb_of(name) != "bootstrap":
            raise UsageError(f"{name} is not a run of 'bootstrap'", hint="only a bootstrap can be undone")
        return name
    return RunDir.open(run, runs, ("bootstrap",), "apply").id


def refuse_unknown(run: str, outcomes: HostMap[UndoOutcome], *folders: Path) -> None:
    """Raise UsageError for a run that is in no node's journal and has none of these run folders.

    ``run`` is the whole id. A run that changed nothing on a node is missing in that node's journal; other journals or
    the run folder still show that it exists. If no node answered, the command reports that failure instead.
    """
    from clusterctl.inventory import nodeset

    answered = {node: o for node, o in outcomes.values_by_node.items() if o.failure is None}
    if not answered or any(o.known is None for o in answered.values()) or any(map(is_run_folder, folders)):
        return
    holders = grouped((known, node) for node, outcome in answered.items() for known in outcome.known or ())
    silent = [node for node in outcomes if node not in answered]
    close = get_close_matches(run, holders, n=3, cutoff=0.85)
    latest = sorted(holders)[-_TOLD:]
    told = "; ".join(f"{known} (on {nodeset.fold(holders[known])})" for known in close or latest)
    if close:
        hint = f"did you mean {told}?"
    elif latest:
        hint = f"the latest runs of these nodes are: {told}"
    else:
        hint = "these nodes have no journal of a bootstrap run"
    if silent:
        hint += f"; {nodeset.fold(silent)} did not answer and may have it"
    raise UsageError(f"no journal on {nodeset.fold(answered)} has the run {run}", hint=hint)
