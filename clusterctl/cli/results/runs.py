"""``results list``, ``show`` and ``compare``: print earlier results from the database next to the run folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from clusterctl.cli import console, report_files
from clusterctl.cli import options as cli
from clusterctl.cli.bench.reports import HtmlOption
from clusterctl.closest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterctl.results.store import RunFilter

STATUSES = ("ok", "failed", "below-baseline", "not-judged")

BenchmarkOption = Annotated[
    Optional[str],  # noqa: UP045 - typer evaluates this at run time on 3.10
    typer.Option("--benchmark", metavar="BENCHMARK", help="Only runs of this collective or model."),
]
LibraryOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--library", metavar="LIBRARY", help="Only runs with this library: nccl, gloo, ccore."),
]
StatusOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--status",
        metavar="STATUS",
        help="Only runs with this status: ok, failed, below-baseline or not-judged.",
    ),
]
SinceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--since", metavar="WHEN", help="Only runs since this time: 12h, 7d, 2026-11-01."),
]
NewestOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--newest", min=1, metavar="N", help="Only the newest N runs."),
]


def wanted(
    benchmark: str | None, library: str | None, status: str | None, since: str | None, newest: int | None
) -> RunFilter:
    """Return the filters of a command line; raise UsageError for an unknown status or an invalid time."""
    from clusterctl.errors import UsageError
    from clusterctl.results import select
    from clusterctl.results.store import RunFilter

    if status is not None and status not in STATUSES:
        raise UsageError(f"unknown status {status!r}", hint=did_you_mean(status, STATUSES))
    moment = select.since(since) if since is not None else None
    return RunFilter(benchmark=benchmark, library=library, status=status, since=moment, newest=newest)


def say_damaged(messages: Sequence[str]) -> None:
    """Print a warning for each run that is left out because its stored result cannot be read."""
    for message in messages:
        console.talk(f"warning: left out: {message}")


def list_runs(
    benchmark: BenchmarkOption = None,
    library: LibraryOption = None,
    status: StatusOption = None,
    since: SinceOption = None,
    newest: NewestOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """List stored runs, newest first.

    Each line shows a run's best figure: the highest busbw, or the throughput of all ranks.
    """
    from clusterctl.report.text import runs as run_list
    from clusterctl.results.store import RunFilter, Store

    choice = wanted(benchmark, library, status, since, newest)
    with Store.open(runs, make=False) as results:
        found, path = results.runs(choice), results.path
        say_damaged(results.damaged)
    if as_json:
        console.emit_json(run_list.to_document(found))
    elif found:
        console.data(run_list.render(found, console.width()), look="result")
    else:
        console.talk(f"no result in {path} {'yet' if choice == RunFilter() else 'matches'}")


def show(
    run: cli.RunArgument,
    html: HtmlOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Show one stored run, or write its HTML page."""
    from clusterctl.report.text import runs as run_list
    from clusterctl.results.damage import read_as_stored
    from clusterctl.results.store import Store

    report_files.refuse_unwritable(html)
    with Store.open(runs, make=False) as results:
        record = results.get(run)
    with read_as_stored(record.summary.run, results.path):
        page = None
        if html is not None:
            from clusterctl.report.html import run_page

            page = run_page.render(record)
        text = None if as_json else run_list.shown(record)
    if html is not None and page is not None:
        report_files.write(html, page)
    if text is None:
        console.emit_json(dict(record.document))
    else:
        console.data(text, look="result")
    if html is not None:
        console.talk(f"report: {html}")


def compare_runs(
    names: Annotated[
        list[str],
        typer.Argument(metavar="RUN RUN...", help="The runs, as for show; the first is the reference."),
    ],
    html: HtmlOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Compare runs side by side, with ratios to the first.

    First lists how the runs differ in their setup; runs without a common figure are rejected.
    """
    from clusterctl.report.text import comparison as reports
    from clusterctl.results.comparison import compare
    from clusterctl.results.damage import read_as_stored
    from clusterctl.results.store import Store

    report_files.refuse_unwritable(html)
    with Store.open(runs, make=False) as results:
        records = [results.get(name) for name in names]
    with read_as_stored(" or ".join(one.summary.run for one in records), results.path):
        found = compare(records)
        page = None
        if html is not None:
            from clusterctl.report.html import comparison_page

            page = comparison_page.render(found, records)
        document, text = reports.to_document(found), reports.render(found, console.width())
    if html is not None and page is not None:
        report_files.write(html, page)
    if as_json:
        console.emit_json(document)
    else:
        console.data(text, look="result")
    if html is not None:
        console.talk(f"report: {html}")
