"""``results list``, ``show`` and ``compare``: print earlier results from the database next to the run folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console, report_files
from clusterctl.cli import options as cli
from clusterctl.closest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterctl.results.store import RunFilter

STATUSES = ("ok", "failed", "below-baseline", "below-threshold", "not-judged", "doubtful")


@dataclass(frozen=True)
class Filters:
    """Choose stored runs."""

    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", metavar="BENCHMARK", help="Only runs of this collective or model."),
    ] = None
    library: Annotated[
        str | None,
        typer.Option("--library", metavar="LIBRARY", help="Only runs with this library: nccl, gloo, ccore."),
    ] = None
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="Only runs with this status: ok, failed, below-baseline, below-threshold, not-judged or doubtful.",
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Only runs since this time: 12h, 7d, 2026-11-01."),
    ] = None
    newest: Annotated[
        int | None, typer.Option("--newest", min=1, metavar="N", help="Only the newest N runs.")
    ] = None

    def wanted(self) -> RunFilter:
        """Return the filter; raise UsageError for an unknown status or an invalid time."""
        from clusterctl.cli import times
        from clusterctl.errors import UsageError
        from clusterctl.results.store import RunFilter

        if self.status is not None and self.status not in STATUSES:
            raise UsageError(f"unknown status {self.status!r}", hint=did_you_mean(self.status, STATUSES))
        moment = times.since(self.since) if self.since is not None else None
        return RunFilter(
            benchmark=self.benchmark,
            library=self.library,
            status=self.status,
            since=moment,
            newest=self.newest,
        )


def say_damaged(messages: Sequence[str]) -> None:
    """Print a warning for each run that is left out because its stored result cannot be read."""
    for message in messages:
        console.talk(f"warning: left out: {message}")


def list_runs(filters: Filters, runs: cli.RunsOption = None, as_json: cli.JsonOption = False) -> None:
    """List stored runs, newest first.

    Each line shows a run's best figure: the highest busbw, or the throughput of all ranks.
    """
    from clusterctl.report.text import runs as run_list
    from clusterctl.results.store import RunFilter, Store

    choice = filters.wanted()
    with Store.open(runs, make=False) as results:
        found, path = results.runs(choice), results.path
        say_damaged(results.damaged)
    if as_json:
        console.emit_json(run_list.to_document(found))
    elif found:
        console.data(run_list.render(found, console.width()), look="result")
    else:
        has_filter = choice != RunFilter()
        console.talk(f"no result in {path} {'matches' if has_filter else 'yet'}")
        console.talk(f"hint: {'drop a filter' if has_filter else 'run clusterctl bench first'}")


def show(
    run: cli.RunArgument,
    html: cli.HtmlOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Show one stored run, or write its HTML page."""
    from clusterctl.results.damage import read_as_stored
    from clusterctl.results.store import Store
    from clusterctl.views import bench
    from clusterctl.views import runs as stored

    report_files.refuse_unwritable(html)
    with Store.open(runs, make=False) as results:
        record = results.get(run)
    with read_as_stored(record.summary.run, results.path):
        page = None
        if html is not None:
            from clusterctl.report.html import of_view

            page = of_view.render(bench.view(record, for_page=True))
        text = None if as_json else stored.shown(record)
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
    html: cli.HtmlOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Compare runs side by side, with ratios to the first.

    First lists how the runs differ in their setup; runs without a common figure are rejected.
    """
    from clusterctl.report.text import of_view as text_of
    from clusterctl.results.comparison import compare, to_document
    from clusterctl.results.damage import read_as_stored
    from clusterctl.results.store import Store
    from clusterctl.views import comparison

    report_files.refuse_unwritable(html)
    with Store.open(runs, make=False) as results:
        records = [results.get(name) for name in names]
    with read_as_stored(" or ".join(one.summary.run for one in records), results.path):
        found = compare(records)
        view = comparison.view(found, records)
        page = None
        if html is not None:
            from clusterctl.report.html import of_view as html_of

            page = html_of.render(view)
        document, text = to_document(found), text_of.render(view, console.width())
    if html is not None and page is not None:
        report_files.write(html, page)
    if as_json:
        console.emit_json(document)
    else:
        console.data(text, look="result")
    if html is not None:
        console.talk(f"report: {html}")
