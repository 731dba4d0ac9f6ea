"""Print the known cause of a failed launch from its own logs, as ``explain`` would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterctl.cli import console

if TYPE_CHECKING:
    from clusterctl.documents.explain import KnownCause
    from clusterctl.rundir import RunDir


def say_cause(cause: KnownCause | None, run: RunDir) -> None:
    """Print to stderr the known cause in the logs of a run that failed, if there is one, and ``explain``."""
    from clusterctl.report.known_errors.run_logs import logs_below
    from clusterctl.report.text import explained

    if cause is not None:
        for line in explained.cause_lines(cause):
            console.talk(line)
    if logs_below(run.path):
        console.talk(f"hint: for other errors in the logs: clusterctl explain {run.path}")
