"""Print a result of ``bench``: as a table, as variants side by side, or in Horovod's format."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from clusterctl.cli import console
from clusterctl.errors import UsageError
from clusterctl.report.line import TonedLine

if TYPE_CHECKING:
    from clusterctl.launch.request import Request
    from clusterctl.results.record import Record


class Output(str, Enum):
    """Name the output formats."""

    table = "table"
    horovod = "horovod"


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
    """Return the lines for stdout."""
    from clusterctl.report.text import horovod, of_view
    from clusterctl.views import bench

    if output is Output.horovod and record.result.points:
        return [TonedLine(horovod.render(record.result))]
    return of_view.lines(bench.view(record), console.width())
