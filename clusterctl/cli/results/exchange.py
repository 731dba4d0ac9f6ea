"""``results export`` and ``results import``: write stored runs for other tools, and read run folders."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from clusterctl import json_text
from clusterctl.cli import console, report_files
from clusterctl.cli import options as cli
from clusterctl.cli.results.runs import Filters, say_damaged
from clusterctl.errors import ResultError, UsageError
from clusterctl.inventory.user_paths import is_folder
from clusterctl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterctl.results.record import Record
    from clusterctl.results.store import RunFilter, Store

T = TypeVar("T")


class Format(str, Enum):
    """Name the output formats."""

    json = "json"
    csv = "csv"
    prometheus = "prometheus"
    junit = "junit"


def export(
    kind: Annotated[Format | None, typer.Option("--format", help="Output format; default: json.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Output file, written atomically; default: stdout."
        ),
    ] = None,
    *,
    filters: Filters,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Export stored runs as JSON, CSV, Prometheus or JUnit."""
    from clusterctl.results.store import Store

    if as_json and kind not in (None, Format.json):
        raise UsageError("--json cannot be combined with another --format", hint="leave one of them out")
    report_files.refuse_unwritable(output)
    choice = filters.wanted()
    with Store.open(runs, make=False) as results:
        text = _rendered(results, choice, kind or Format.json)
        say_damaged(results.damaged)
    if output is None:
        console.data(text.replace("\r\n", "\n"))  # CSV has \r\n; on stdout, lines end with \n
    else:
        report_files.write(output, text)


def _rendered(results: Store, choice: RunFilter, kind: Format) -> str:
    if kind is Format.json:
        from clusterctl.documents.results import ResultsExport
        from clusterctl.report.text import runs as run_list

        exported = _readable(results, choice, run_list.exported)
        return json_text.in_ascii(ResultsExport(runs=exported).document(), indent=1) + "\n"
    from clusterctl.views import bench

    form = kind.value
    return bench.form(form, _readable(results, choice, lambda record: bench.made(form, record)))


def _readable(results: Store, choice: RunFilter, make: Callable[[Record], T]) -> list[T]:
    """Return what is made of each run; each is made alone, so that a damaged run does not affect others."""
    from clusterctl.results.damage import read_as_stored

    found = []
    for one in results.runs(choice):
        try:
            record = results.get(one.run)
            with read_as_stored(one.run, results.path):
                found.append(make(record))
        except ResultError as error:
            results.damaged.append(error.message)
    return found


def import_runs(
    places: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Run folders, or directories of run folders.")
    ],
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Store the results of run folders.

    Use it for runs of another machine, or after the database was lost.

    Exit code 0: each result is stored; 1: a result could not be read, or no result was found.
    """
    from clusterctl.documents.results import ResultsImport
    from clusterctl.results import folders
    from clusterctl.results.store import Store

    for place in places:
        if not is_folder(place):
            raise UsageError(
                f"{place} is not a directory", hint="give run folders, or the directory that holds them"
            )
    records, refused = [], []
    found: dict[Path, None] = {}
    for place in places:
        there = dict.fromkeys(folders.run_folders(place))
        if not there:
            refused.append(
                f"{place}: neither it nor a directory in it has a results.json; expected a run folder of 'bench', "
                "or a directory of run folders"
            )
        found |= there
    for folder in found:
        try:
            records.append(folders.read(folder))
        except ResultError as error:
            refused.append(error.message)
    with Store.open(runs) as results:
        results.save(*records)
        path = results.path
    for message in refused:
        console.error(f"not imported: {message}")
    if as_json:
        imported = tuple(one.summary.run for one in records)
        console.emit_json(ResultsImport(imported=imported, refused=tuple(refused)).document())
    console.talk(f"{path}: {counted(len(records), 'run')} imported")
    raise typer.Exit(0 if records and not refused else 1)
