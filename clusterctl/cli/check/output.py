"""What ``check`` prints and writes: the text for people, reports in files, and the commands to type next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.cli import report_files

if TYPE_CHECKING:
    from clusterctl.cli.check.run import Judged
    from clusterctl.report.view import NextStep, View


@dataclass(frozen=True, slots=True)
class CheckReports:
    """The files to write besides the output; None for those that were not requested."""

    junit: Path | None
    prometheus: Path | None
    html: Path | None

    def write(self, view: View) -> None:
        """Write the requested files."""
        reports = report_files.EachReport()
        if self.junit is not None:
            from clusterctl.report import junit

            with reports.of(self.junit):
                report_files.write(self.junit, junit.render("clusterctl check", view.suites()))
        if self.prometheus is not None:
            from clusterctl.report import prometheus

            with reports.of(self.prometheus):
                report_files.write(self.prometheus, prometheus.render(view.metrics()))
        if self.html is not None:
            from clusterctl.report.html import of_view

            with reports.of(self.html):
                report_files.write(self.html, of_view.render(view))
        reports.finish()


def view(
    judged: Judged,
    following: Sequence[NextStep],
    *,
    every: bool = False,
    for_page: bool,
) -> View:
    """Return what people, CI servers and monitoring systems see; ``every`` lists what needs no attention, too."""
    from clusterctl.report.text.failures import rootless_lines
    from clusterctl.views import check

    # When the last node answered, which for a replay is not today.
    ends = (facts.gathered_at for facts in judged.facts.values_by_node.values())
    return check.view(
        judged.checked,
        checked_at_s=max(ends, default=time.time()),
        following=following,
        notes=list(rootless_lines(judged.facts.values_by_node, judged.verdicts.values_by_node)),
        every=every,
        for_page=for_page,
    )
