"""Show the results of ``bench`` and ``launch``, write their reports, and print the command that follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.cli import console, report_files
from clusterctl.cli.bench import run as bench_run
from clusterctl.cli.bench.options import Output
from clusterctl.errors import ConfigError, UsageError
from clusterctl.report.line import TonedLine

if TYPE_CHECKING:
    from clusterctl.cli.bench.options import Reports
    from clusterctl.launch.request import Request
    from clusterctl.results.record import Record
    from clusterctl.views.next_step import Way


def require_possible(output: Output, request: Request, *, as_json: bool, compared: bool) -> None:
    """Raise UsageError if Horovod's format cannot represent the request."""
    if output is Output.table:
        return
    from clusterctl.benchmarks.model_names import OF_BERT

    if as_json:
        raise UsageError("--output horovod and --json cannot be combined", hint="leave one of them out")
    if request.training is None or request.training.model in OF_BERT:
        raise UsageError(
            "--output horovod requires an image model",
            hint="add --model resnet50 or another image classifier",
        )
    if compared:
        raise UsageError(
            "--output horovod cannot show variants or repeats", hint="leave out --compare and --repeats"
        )


def lines(record: Record, output: Output) -> list[TonedLine]:
    """Return the lines for stdout: a table, variants side by side, or Horovod's format."""
    from clusterctl.report.text import horovod, of_view
    from clusterctl.views import bench

    if output is Output.horovod and record.result.points:
        return [TonedLine(horovod.render(record.result))]
    return of_view.lines(bench.view(record), console.width())


def shown(form: Output, *, as_json: bool) -> Callable[[bench_run.Ended], None]:
    """Return a function that shows a result and its failures; it raises KeyboardInterrupt if a person ended the run."""
    from clusterctl.launch.failure import was_interrupted
    from clusterctl.views import bench

    def show(ended: bench_run.Ended) -> None:
        if not as_json:
            console.data(lines(ended.record, form))
        # Standard error has every failure, unless a terminal shows the sentence right above it.
        is_above = not as_json and form is Output.table and console.is_one_screen()
        bench_run.say_end(ended, bench.view(ended.record).sentence if is_above else "")
        if was_interrupted(ended.faults):
            raise KeyboardInterrupt

    return show


def finish(all_ended: Sequence[bench_run.Ended], reports: Reports, way: Way | None) -> int:
    """Write the reports, print the next command if there is a ``way`` to it, and return the exit code."""
    written = _write([ended.record for ended in all_ended], reports)
    if way is not None:
        bench_run.say_next(all_ended, way)
    return next((ended.exit_code for ended in all_ended if ended.exit_code), 0) or written


def _write(records: Sequence[Record], reports: Reports) -> int:
    """Write the requested reports and return 0, or the exit code of ConfigError if one cannot be written.

    The result of the run stays stored either way. Several runs have a page each, whose name ends with the run's id.
    """
    from clusterctl.views import bench

    views = [bench.view(record, for_page=reports.html is not None) for record in records]
    try:
        if reports.html is not None:
            from clusterctl.report.html import of_view

            for view in views:
                page = reports.html
                if len(records) > 1:
                    page = page.with_name(f"{page.stem}-{view.run}{page.suffix}")
                report_files.write(page, of_view.render(view))
                console.talk(f"report: {page}")
        forms: tuple[tuple[Path | None, bench.Form], ...] = (
            (reports.junit, "junit"), (reports.csv, "csv"), (reports.prometheus, "prometheus")
        )  # fmt: skip
        for path, form in forms:
            if path is not None:
                report_files.write(path, bench.form(form, views))
    except ConfigError as error:
        console.talk(f"error: {error.message}")
        return error.exit_code
    return 0
