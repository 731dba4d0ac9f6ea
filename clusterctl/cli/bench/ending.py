"""Show the results of ``bench`` and ``launch``, write their reports, and print the command that follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clusterctl.cli import console
from clusterctl.cli.bench import output as bench_output
from clusterctl.cli.bench import reports as bench_reports
from clusterctl.cli.bench import run as bench_run

if TYPE_CHECKING:
    from clusterctl.cli.bench.options import Reports
    from clusterctl.views.next_step import Way


def shown(form: bench_output.Output, *, as_json: bool) -> Callable[[bench_run.Ended], None]:
    """Return a function that shows a result and its failures; it raises KeyboardInterrupt if a person ended the run."""
    from clusterctl.launch.failure import was_interrupted

    def show(ended: bench_run.Ended) -> None:
        if not as_json:
            console.data(bench_output.lines(ended.record, form))
        bench_run.say_end(ended)
        if was_interrupted(ended.faults):
            raise KeyboardInterrupt

    return show


def finish(all_ended: Sequence[bench_run.Ended], reports: Reports, way: Way | None) -> int:
    """Write the reports, print the next command if there is a ``way`` to it, and return the exit code."""
    written = bench_reports.write(
        *(ended.record for ended in all_ended), html=reports.html, junit=reports.junit, csv=reports.csv,
        prometheus=reports.prometheus,
    )  # fmt: skip
    if way is not None:
        bench_run.say_next(all_ended, way)
    return next((ended.exit_code for ended in all_ended if ended.exit_code), 0) or written
