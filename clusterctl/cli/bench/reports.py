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
        if csv is not None:
            from clusterctl.report import bench_csv

            report_files.write(csv, bench_csv.render(records))
        if prometheus is not None:
            from clusterctl.report import bench_prometheus

            report_files.write(prometheus, bench_prometheus.render(records))
    except ConfigError as error:
        console.talk(f"error: {error.message}")
        return error.exit_code
    return 0
