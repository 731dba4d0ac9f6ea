"""``runs export`` and ``runs import``: write benchmarks for other tools, and copy run folders of other machines."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from clusterctl.cli import console, report_files
from clusterctl.cli import options as cli
from clusterctl.cli.runs.listing import Filters, found
from clusterctl.errors import ResultError, UsageError
from clusterctl.inventory.user_paths import is_folder
from clusterctl.run_ids import BENCHMARKS
from clusterctl.text import json_text
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterctl.documents.runs import ListedRun
    from clusterctl.results.record import Record

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
    """Export benchmarks as JSON, CSV, Prometheus or JUnit."""
    if as_json and kind not in (None, Format.json):
        raise UsageError("--json cannot be combined with another --format", hint="leave one of them out")
    report_files.refuse_unwritable(output)
    entries = found(filters, filters.ids([*BENCHMARKS], runs, "results"), runs, filters.newest).entries
    text = _rendered(entries, kind or Format.json)
    if output is None:
        console.data(text.replace("\r\n", "\n"))  # CSV has \r\n; on stdout, lines end with \n
    else:
        report_files.write(output, text)


def _rendered(entries: Sequence[ListedRun], kind: Format) -> str:
    if kind is Format.json:
        from clusterctl.documents.measured_runs import RunsExport

        exported = _readable(entries, lambda record: record.exported())
        return json_text.in_ascii(RunsExport(runs=exported).document(), indent=1) + "\n"
    from clusterctl.views import bench

    form = kind.value
    return bench.form(form, _readable(entries, lambda record: bench.made(form, record)))


def _readable(entries: Sequence[ListedRun], make: Callable[[Record], T]) -> list[T]:
    """Return what is made of each run; a damaged run is left out with a warning."""
    from clusterctl.results import folders
    from clusterctl.results.damage import read_as_stored

    made = []
    for one in entries:
        folder = Path(one.folder)
        try:
            with read_as_stored(one.run, folder):
                made.append(make(folders.read(folder)))
        except (ResultError, OSError) as error:
            console.talk(f"warning: left out: {error}")
    return made


def import_runs(
    places: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Run folders, or directories of run folders.")
    ],
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Copy run folders of other machines into the directory of run folders.

    Exit code 0: each run is there; 1: a run could not be read, or no run folder was found.
    """
    from clusterctl.documents.measured_runs import RunsImport
    from clusterctl.rundir import default_root
    from clusterctl.runs import importing

    for place in places:
        if not is_folder(place):
            raise UsageError(
                f"{place} is not a directory", hint="give run folders, or the directory that holds them"
            )
    root = runs or default_root()
    imported: list[str] = []
    refused: list[str] = []
    present = 0
    for place in places:
        folders = list(importing.run_folders(place))
        if not folders:
            refused.append(
                f"{place}: neither it nor a directory in it is a run folder, named like TIME-bench-1a2b"
            )
        for folder in folders:
            try:
                if importing.take(folder, root):
                    imported.append(folder.name)
                else:
                    present += 1
            except ResultError as error:
                refused.append(error.message)
    for message in refused:
        console.error(f"not imported: {message}")
    if as_json:
        console.emit_json(RunsImport(imported=tuple(imported), refused=tuple(refused)).document())
    there = f", {counted(present, 'run')} already there" if present else ""
    console.talk(f"{root}: {counted(len(imported), 'run')} imported{there}")
    raise typer.Exit(1 if refused else 0)
