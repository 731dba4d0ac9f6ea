"""``runs list``, ``show`` and ``label``: the run folders of all commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console, named_inventory, next_command, report_files
from clusterctl.cli import options as cli
from clusterctl.errors import UsageError
from clusterctl.text.closest import did_you_mean

if TYPE_CHECKING:
    from clusterctl.documents.runs import ListedRun
    from clusterctl.runs.index import IndexedRuns

NEWEST = 20
VerbOption = Annotated[
    list[str] | None,
    typer.Option(
        "--verb", metavar="VERB", help="Only runs of this command: check, bootstrap, undo, bench, ..."
    ),
]


@dataclass(frozen=True)
class Filters:
    """Choose runs."""

    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", metavar="BENCHMARK", help="Only benchmarks of this collective or model."),
    ] = None
    library: Annotated[
        str | None,
        typer.Option(
            "--library", metavar="LIBRARY", help="Only benchmarks with this library: nccl, gloo, ccore."
        ),
    ] = None
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="Only runs with this outcome: bad, measured, failed, ...",
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Only runs since this time: 12h, 7d, 2026-11-01."),
    ] = None
    newest: Annotated[
        int | None, typer.Option("--newest", min=1, metavar="N", help="Only the newest N runs.")
    ] = None

    def ids(self, verbs: list[str] | None, runs: Path | None, stage: str | None = None) -> list[str]:
        """Return the ids of the runs of these commands that began late enough, and have the file of ``stage``.

        Raise UsageError for a bad filter.
        """
        from clusterctl.cli import times
        from clusterctl.documents.runs import RunOutcome
        from clusterctl.results.words import Word

        known = list(dict.fromkeys(one.value for one in (*Word, *RunOutcome)))
        if self.status is not None and self.status not in known:
            raise UsageError(f"unknown status {self.status!r}", hint=did_you_mean(self.status, known))
        moment = times.since(self.since) if self.since is not None else ""
        return [one for one in chosen(verbs, runs, stage) if not moment or began(one) >= moment]

    def fits(self, one: ListedRun) -> bool:
        """Return whether a run has the benchmark, the library, and the word or outcome."""
        libraries = (one.library or "").split(", ")
        return (
            self.benchmark in (None, one.benchmark)
            and (self.library is None or self.library in libraries)
            and (self.status is None or self.status in (one.outcome.value, _word(one)))
        )

    @property
    def look_inside(self) -> bool:
        """Return whether a filter needs more of a run than its id."""
        return not (self.benchmark is self.library is self.status is None)


def _word(one: ListedRun) -> str:
    from clusterctl.results import words

    return words.of_run(one)[0].value


def chosen(verbs: list[str] | None, runs: Path | None, stage: str | None = None) -> list[str]:
    """Return the ids of the runs of these commands, newest first; raise UsageError for an unknown command."""
    from clusterctl import run_ids, rundir
    from clusterctl.runs.outcome import VERBS

    for verb in verbs or ():
        if verb not in VERBS:
            raise UsageError(f"unknown command {verb!r}", hint=did_you_mean(verb, VERBS))
    return [one for one in rundir.ids(runs, stage=stage) if not verbs or run_ids.verb_of(one) in verbs]


def found(filters: Filters, ids: list[str], runs: Path | None, most: int | None) -> IndexedRuns:
    """Return the first ``most`` of these runs that the filters let through, and print what the index has to say."""
    from clusterctl.cli.terminal.progress import Progress
    from clusterctl.rundir import default_root
    from clusterctl.runs import index

    fits = filters.fits if filters.look_inside else None
    with Progress("Reading runs", len(ids), "runs", after_s=1) as progress:
        answer = index.find(runs or default_root(), ids, most, fits, progress.advance)
    if answer.note:
        console.talk(f"note: {answer.note}")
    return answer


def list_runs(
    verb: VerbOption = None,
    *,
    filters: Filters,
    every: Annotated[bool, typer.Option("--all", help="All runs, however many.")] = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """List the runs of all commands, newest first: 20 runs, without --newest or --all."""
    from clusterctl.documents.runs import Runs
    from clusterctl.rundir import default_root
    from clusterctl.views import run_list

    ids = filters.ids(verb, runs)
    most = None if every else filters.newest or NEWEST
    entries = found(filters, ids, runs, most).entries
    if as_json:
        console.emit_json(Runs(runs=entries).document())
        return
    if entries:
        console.show(run_list.view(entries))
    else:
        is_filtered = bool(verb or filters != Filters())
        console.talk(f"{runs or default_root()} has no {'matching run' if is_filtered else 'run yet'}")
    if len(entries) == most and most < len(ids):
        of = "" if filters.look_inside else f" of {len(ids)}"
        console.talk(f"{most}{of} runs; --all lists all of them")


def began(run: str) -> str:
    """Return when a run began (RFC 3339, UTC); empty if its id has no time."""
    from clusterctl import run_ids

    moment = run_ids.started_at(run)
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def show(
    run: cli.RunArgument,
    html: cli.HtmlOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Show one run: its outcome, its nodes, and what was done or measured on them; or write its HTML page."""
    from clusterctl.documents.runs import ShownRun
    from clusterctl.report.line import TonedLine
    from clusterctl.results.damage import read_as_stored
    from clusterctl.rundir import RunDir
    from clusterctl.runs import outcome
    from clusterctl.views import runs as shown_run

    report_files.refuse_unwritable(html)
    folder = RunDir.open(run, runs)
    entry, result, undone = outcome.listed(folder), outcome.result(folder), outcome.undone_by(folder)
    if html is not None:
        from clusterctl.report.html import of_view

        with read_as_stored(entry.run, folder.path), named_inventory.of_run(folder):
            page = of_view.render(shown_run.page(entry.verb, folder.path, result))
        report_files.write(html, page)
    if as_json:
        console.emit_json(ShownRun(run=entry, result=result, undone_by=undone).document())
    else:
        with read_as_stored(entry.run, folder.path), named_inventory.of_run(folder):
            more = (
                [] if result is None else shown_run.summary(entry.verb, folder.path, result, console.width())
            )
        console.data([TonedLine(shown_run.head(entry, undone)), *((TonedLine(""), *more) if more else ())])
        name = entry.run if runs is None else str(folder.path)
        has_logs = any(folder.path.rglob("*.log"))
        next_command.say_all(
            shown_run.following(
                entry, name, outcome.source(folder), is_undone=bool(undone), has_logs=has_logs
            )
        )
    if html is not None:
        console.talk(f"report: {html}")


def label(
    run: cli.RunArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The label; an empty text removes it.")],
    runs: cli.RunsOption = None,
) -> None:
    """Label a run, so that lists show what it was for."""
    from clusterctl.rundir import RunDir

    folder = RunDir.open(run, runs)
    folder.set_label(text)
    console.talk(f"{folder.id}: {text!r}" if text else f"{folder.id}: label removed")
