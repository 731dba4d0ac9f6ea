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

    The result of the run stays stored either way. Several runs have a page each, whose name ends with the run's id.
    """
    try:
        if html is not None:
            from clusterctl.report.html import run_page

            for record in records:
                page = html
                if len(records) > 1:
                    page = html.with_name(f"{html.stem}-{record.summary.run}{html.suffix}")
                report_files.write(page, run_page.render(record))
                console.talk(f"report: {page}")
        if junit is not None:
            from clusterctl.report import bench_junit

            report_files.write(junit, bench_junit.render(records))
    except ConfigError as error:
        console.talk(f"error: {error.message}")
        return error.exit_code
    return 0
