"""Write the optional reports of ``bench``: an HTML page, JUnit XML, CSV, and a textfile for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.cli import console, report_files
from clusterctl.errors import ConfigError

if TYPE_CHECKING:
    from clusterctl.results.record import Record


def write(
    *records: Record,
    html: Path | None = None,
    junit: Path | None = None,
    csv: Path | None = None,
    prometheus: Path | None = None,
) -> int:
    """Write the requested reports and return 0, or the exit code of ConfigError if one cannot be written.

    The result of the run stays stored either way. Several runs have a page each, whose name ends with the run's id.
    """
    from clusterctl.views import bench

    views = [bench.view(record, for_page=html is not None) for record in records]
    try:
        if html is not None:
            from clusterctl.report.html import of_view

            for view in views:
                page = html
                if len(records) > 1:
                    page = html.with_name(f"{html.stem}-{view.run}{html.suffix}")
                report_files.write(page, of_view.render(view))
                console.talk(f"report: {page}")
        forms: tuple[tuple[Path | None, bench.Form], ...] = (
            (junit, "junit"), (csv, "csv"), (prometheus, "prometheus")
        )  # fmt: skip
        for path, form in forms:
            if path is not None:
                report_files.write(path, bench.form(form, views))
    except ConfigError as error:
        console.talk(f"error: {error.message}")
        return error.exit_code
    return 0
