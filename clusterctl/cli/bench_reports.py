"""The reports that ``bench`` writes when asked: a page for people."""

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
    typer.Option("--html", metavar="FILE", help="Also write one self-contained page with charts."),
]


def write(record: Record, *, html: Path | None) -> int:
    """Write what was asked for and return 0, or ConfigError's exit code: the run's result stands either way."""
    if html is None:
        return 0
    from clusterctl.report.html import run_page

    try:
        report_files.write(html, run_page.render(record))
    except ConfigError as error:
        console.talk(f"error: {error.message}")
        return error.exit_code
    console.talk(f"report: {html}")
    return 0
