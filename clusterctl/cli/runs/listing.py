"""``runs list``, ``show`` and ``label``: the run folders of all commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterctl.cli import console, next_command
from clusterctl.cli import options as cli
from clusterctl.closest import did_you_mean
from clusterctl.errors import UsageError

NEWEST = 20
VerbOption = Annotated[
    list[str] | None,
    typer.Option(
        "--verb", metavar="VERB", help="Only runs of this command: check, bootstrap, undo, bench, ..."
    ),
]


def chosen(verbs: list[str] | None, runs: Path | None) -> list[str]:
    """Return the ids of the runs of these commands, newest first; raise UsageError for an unknown command."""
    from clusterctl import run_ids, rundir
    from clusterctl.runs.outcome import VERBS

    for verb in verbs or ():
        if verb not in VERBS:
            raise UsageError(f"unknown command {verb!r}", hint=did_you_mean(verb, VERBS))
    return [one for one in rundir.ids(runs) if not verbs or run_ids.verb_of(one) in verbs]


def list_runs(
    verb: VerbOption = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Only runs since this time: 12h, 7d, 2026-11-01."),
    ] = None,
    newest: Annotated[int, typer.Option("--newest", min=1, help="Only the newest N runs.")] = NEWEST,
    every: Annotated[bool, typer.Option("--all", help="All runs, however many.")] = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """List the runs of all commands, newest first."""
    from clusterctl.cli import times
    from clusterctl.documents.runs import Runs
    from clusterctl.report.text import run_list
    from clusterctl.rundir import RunDir, default_root
    from clusterctl.runs import outcome

    root = runs or default_root()
    found = chosen(verb, runs)
    if since is not None:
        moment = times.since(since)
        found = [one for one in found if began(one) >= moment]
    shown = found if every else found[:newest]
    entries = tuple(outcome.listed(RunDir(root / one)) for one in shown)
    if as_json:
        console.emit_json(Runs(runs=entries).document())
        return
    if entries:
        console.data(run_list.render(entries, console.width()), look="runs", wrap=True)
    else:
        console.talk(f"{root} has no {'matching run' if verb or since else 'run yet'}")
    if len(shown) < len(found):
        console.talk(f"{len(shown)} of {len(found)} runs; --all lists all of them")


def began(run: str) -> str:
    """Return when a run began (RFC 3339, UTC); empty if its id has no time."""
    from clusterctl import run_ids

    moment = run_ids.started_at(run)
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def show(run: cli.RunArgument, runs: cli.RunsOption = None, as_json: cli.JsonOption = False) -> None:
    """Show one run: its outcome, its nodes, and what was done on them."""
    from clusterctl.documents.runs import ShownRun
    from clusterctl.results import folders
    from clusterctl.results.damage import read_as_stored
    from clusterctl.rundir import RunDir
    from clusterctl.runs import outcome
    from clusterctl.views import runs as shown_run

    folder = RunDir.open(run, runs)
    entry, result, undone = outcome.listed(folder), outcome.result(folder), outcome.undone_by(folder)
    if as_json:
        console.emit_json(ShownRun(run=entry, result=result, undone_by=undone).document())
        return
    with read_as_stored(entry.run, folder.path):
        if entry.verb == "bench" and result is not None:
            more = shown_run.measured(folders.read(folder.path))
        else:
            more = "" if result is None else shown_run.summary(entry.verb, result, console.width())
    console.data("\n\n".join(part for part in (shown_run.head(entry, undone), more) if part))
    name = entry.run if runs is None else str(folder.path)
    has_logs = any(folder.path.rglob("*.log"))
    next_command.say_all(
        shown_run.following(entry, name, outcome.source(folder), is_undone=bool(undone), has_logs=has_logs)
    )


def label(
    run: cli.RunArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The label; an empty text removes it.")],
    runs: cli.RunsOption = None,
) -> None:
    """Label a run, so that lists show what it was for."""
    from clusterctl.errors import ResultError
    from clusterctl.results.store import Store
    from clusterctl.rundir import RunDir

    folder = RunDir.open(run, runs)
    folder.set_label(text)
    try:
        with Store.open(folder.path.parent, make=False) as results:
            results.label(folder.id, text or None)
    except ResultError as error:
        console.talk(f"warning: 'results list' does not show the label: {error.message}")
    console.talk(f"{folder.id}: {text!r}" if text else f"{folder.id}: label removed")
