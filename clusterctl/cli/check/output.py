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
    from clusterctl.documents.check import Check
    from clusterctl.report.text.next_step import NextStep
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import HostMap


@dataclass(frozen=True, slots=True)
class CheckReports:
    """The files to write besides the output; None for those that were not requested."""

    junit: Path | None
    prometheus: Path | None
    html: Path | None

    def write(self, judged: Judged, following: Sequence[NextStep], *, strict: bool) -> None:
        """Write the requested files; ``following`` are the commands to type next."""
        reports = report_files.EachReport()
        if self.junit is not None:
            from clusterctl.report import junit
            from clusterctl.views import check

            with reports.of(self.junit):
                suites = check.suites(_checked(judged), strict=strict)
                report_files.write(self.junit, junit.render("clusterctl check", suites))
        if self.prometheus is not None:
            from clusterctl.report import prometheus
            from clusterctl.views import check

            with reports.of(self.prometheus):
                metrics = check.metrics(_checked(judged), checked_at_s=time.time())
                report_files.write(self.prometheus, prometheus.render(metrics))
        if self.html is not None:
            from clusterctl.report.html import fleet_page

            with reports.of(self.html):
                page = fleet_page.render(judged.document, checked_at=_checked_at(judged), following=following)
                report_files.write(self.html, page)
        reports.finish()


def _checked(judged: Judged) -> Check:
    """Return the document as a model, whose making takes time on a large fleet."""
    from clusterctl.documents.check import Check

    return Check.model_validate(judged.document)


def _checked_at(judged: Judged) -> str:
    """Return when the last node answered, which for a replay is not today."""
    seconds = max((facts.gathered_at for facts in judged.facts.values_by_node.values()), default=time.time())
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def text(judged: Judged, following: Sequence[NextStep], *, every: bool, width: int | None) -> str:
    """Return the report for people; ``every`` also lists the verdicts that need no attention."""
    from clusterctl.report.text import check as check_table
    from clusterctl.report.text.failures import rootless_lines
    from clusterctl.report.text.next_step import next_lines, ready_line
    from clusterctl.report.text.wrapping import wrapped, wrapped_message

    answered = judged.verdicts.values_by_node
    ready = ready_line(judged.document)
    last = [*wrapped(check_table.summary_line(judged.document), width)]
    last += [*(() if ready is None else wrapped(ready, width)), *next_lines(following, width)]
    blocks = (
        check_table.folded(judged.verdicts, width, every=every),
        wrapped_message("\n".join(rootless_lines(judged.facts.values_by_node, answered)), width),
        check_table.drift_text(judged.deviations, answered, width),
        "\n".join(last),
    )
    return "\n\n".join(block for block in blocks if block)


def folded(verdicts: HostMap[tuple[Decision, ...]], width: int | None = None) -> str:
    """Return the verdicts as a table for people; nodes with the same verdict share a row."""
    from clusterctl.report.text import check as check_table

    return check_table.folded(verdicts, width, reasons=False)
