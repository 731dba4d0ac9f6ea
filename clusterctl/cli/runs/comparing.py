"""``runs compare``: benchmarks side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterctl.cli import console, report_files
from clusterctl.cli import options as cli


def compare_runs(
    names: Annotated[
        list[str],
        typer.Argument(metavar="RUN RUN...", help="The runs, as for show; the first is the reference."),
    ],
    html: cli.HtmlOption = None,
    junit: cli.JunitOption = None,
    csv: cli.CsvOption = None,
    prometheus: cli.PrometheusOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Compare benchmarks side by side, with ratios to the first.

    First lists how the runs differ in their setup; runs without a common figure are rejected.
    """
    from clusterctl.results import folders
    from clusterctl.results.comparison import compare, to_document
    from clusterctl.views import comparison

    report_files.refuse_unwritable(html, junit, csv, prometheus)
    records = [folders.named(name, runs) for name in names]
    found = compare(records)
    view = comparison.view(found, records)
    if html is not None:
        from clusterctl.report.html import of_view

        report_files.write(html, of_view.render(view))
    forms: tuple[tuple[Path | None, comparison.Form], ...] = (
        (junit, "junit"), (csv, "csv"), (prometheus, "prometheus")
    )  # fmt: skip
    for path, form in forms:
        if path is not None:
            report_files.write(path, comparison.form(form, view))
    console.result(to_document(found), lambda: view, as_json=as_json)
    if html is not None:
        console.talk(f"report: {html}")
