"""``runs baseline``: keep figures of your own fleet to compare later runs with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.errors import ResultError, UsageError
from clusterctl.inventory.user_paths import is_there

if TYPE_CHECKING:
    from clusterctl.results.record import Record

app = typer.Typer(
    help="Figures of your own fleet, to compare later runs with.",
    no_args_is_help=True,
)
NameArgument = Annotated[
    str, typer.Argument(metavar="BASELINE", help="The baseline's name, or a path that contains a slash.")
]


@app.command("record")
def record(
    name: NameArgument,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="A benchmark; give the option once per run. Default: the newest run.",
        ),
    ] = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Add runs to a baseline, or create it. With three repeats or more, it accounts for noise.

    The repeats of one run (bench --repeats) count as much as those of several runs.
    """
    from clusterctl.report.text import baseline as baseline_table
    from clusterctl.results import baseline as rules
    from clusterctl.results import baseline_files, folders
    from clusterctl.results.damage import read_as_stored

    path = baseline_files.path_of(name, runs)
    found = baseline_files.load(name, runs) if is_there(path) else rules.Baseline(name)
    for entry in [folders.named(one, runs) for one in run or ["latest"]]:
        with read_as_stored(entry.summary.run, Path(entry.summary.folder or "")):
            _require_good(entry)
            found = rules.record(found, entry.result)
            baseline_files.document(found)  # a damaged key must not get into the file
    path = baseline_files.save(rules.Baseline(name, found.entries), runs)
    if as_json:
        console.emit_json(baseline_files.document(found))
    for line in baseline_table.recorded(found):
        console.talk(line)
    console.talk(f"baseline: {path}")


def _require_good(record: Record) -> None:
    """Raise UsageError for a run that does not measure a healthy fleet."""
    from clusterctl.documents.bench import BenchStatus
    from clusterctl.results import baseline as rules

    result = record.result
    run, expected = result.run, result.evidence.expected
    if result.status not in (BenchStatus.OK, BenchStatus.NOT_JUDGED):
        raise UsageError(
            f"run {run} has the status {result.status.value}; expected 'ok'",
            hint="record successful runs only",
        )
    if expected is not None and expected.verdict == "impossible":
        raise UsageError(
            f"run {run} reports more than its links can carry", hint="record runs with plausible figures only"
        )
    if not rules.figures(result):
        raise ResultError(
            f"run {run} has no figure that a baseline can hold", hint="measure again with this clusterctl"
        )


@app.command("list")
def list_baselines(runs: cli.RunsOption = None, as_json: cli.JsonOption = False) -> None:
    """List the baselines, with their benchmarks and number of runs."""
    from clusterctl.documents.baseline import Baselines, ListedBaseline
    from clusterctl.report.text.table import columns
    from clusterctl.results import baseline_files

    loaded = [baseline_files.load(name, runs) for name in baseline_files.names(runs)]
    if as_json:
        console.emit_json(
            Baselines(
                baselines=tuple(
                    ListedBaseline(name=one.name, entries=len(one.entries), runs=one.runs) for one in loaded
                )
            ).document()
        )
    elif loaded:
        rows = [
            [one.name, str(len(one.entries)), str(len(one.runs)), str(max((e.repeats for e in one.entries), default=0)),
             ", ".join(dict.fromkeys(f"{e.key['benchmark']} x{e.key['np']}" for e in one.entries))]
            for one in loaded
        ]  # fmt: skip
        console.data(columns(["name", "keys", "runs", "repeats", "benchmarks"], rows, left=(0, 4)))
    else:
        console.talk("no baseline yet: clusterctl runs baseline record NAME")


@app.command("show")
def show(name: NameArgument, runs: cli.RunsOption = None, as_json: cli.JsonOption = False) -> None:
    """Show a baseline's figures and the allowed drop."""
    from clusterctl.report.text import baseline as baseline_table
    from clusterctl.results import baseline_files

    found = baseline_files.load(name, runs)
    if as_json:
        console.emit_json(baseline_files.document(found))
    else:
        console.data(baseline_table.render(found))


@app.command("remove")
def remove(name: NameArgument, runs: cli.RunsOption = None, as_json: cli.JsonOption = False) -> None:
    """Remove a baseline."""
    from clusterctl.documents.baseline import BaselineRemoved
    from clusterctl.results import baseline_files

    baseline_files.remove(name, runs)
    path = str(baseline_files.path_of(name, runs))
    if as_json:
        console.emit_json(BaselineRemoved(name=name, file=path).document())
    else:
        console.talk(f"removed: {path}")


@app.command("catalogue")
def catalogue(as_json: cli.JsonOption = False) -> None:
    """List published figures with their sources, for comparison."""
    from clusterctl.documents.baseline import Catalogue
    from clusterctl.report.text import baseline as baseline_table
    from clusterctl.results import published

    rows = published.rows()
    if as_json:
        console.emit_json(Catalogue(rows=rows).document())
    else:
        console.data(baseline_table.published(rows, console.width()))
