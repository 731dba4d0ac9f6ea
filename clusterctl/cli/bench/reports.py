"""Write the optional reports of ``bench``: an HTML page for people, JUnit XML for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from clusterctl.cli import console, report_files
from clusterctl.errors import ConfigError

if TYPE_CHECKING:
    from clusterctl.results.record import Record

HtmlOption = Annotated[
    Optional[Path],  # noqa: UP045 - typer evaluates this at run time on 3.10
    typer.Option("--html", metavar="FILE", help="Also write a self-contained HTML page with charts."),
]

JunitOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--junit", metavar="FILE", help="Also write the result as JUnit XML."),
]


def write(*records: Record, html: Path | None = None, junit: Path | None = None) -> int:
    """Write the requested reports and return 0, or the exit code of ConfigError if one cannot be written.

    The result of the run stays stored either way. Of several runs, the HTML page shows the last.
    """
    try:
        if html is not None:
            from clusterctl.report.html import run_page

            report_files.write(html, run_page.render(records[-1]))
            console.talk(f"report: {html}")
        if junit is not None:
            from clusterctl.report import bench_junit

            report_files.write(junit, bench_junit.render(records))
    except ConfigError as error:
        console.talk(f"error: {error.message}")
        return error.exit_code
    return 0
