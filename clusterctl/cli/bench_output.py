"""What ``bench`` prints of a result: its table, its variants side by side, or Horovod's lines."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.launch.request import Request
    from clusterctl.results.model import BenchResult


class Output(str, Enum):
    """The form of what is printed."""

    table = "table"
    horovod = "horovod"


OutputOption = Annotated[
    Output, typer.Option("--output", help="horovod: the lines of its synthetic benchmark, for scripts.")
]


def require_possible(output: Output, request: Request, *, as_json: bool, compared: bool) -> None:
    """Raise UsageError for Horovod's lines where they would say something false, or nothing."""
    if output is Output.table:
        return
    from clusterctl.benchmarks.model_names import OF_BERT

    if as_json:
        raise UsageError("--output horovod and --json are two outputs", hint="leave one of them out")
    if request.training is None or request.training.model in OF_BERT:
        raise UsageError(
            "--output horovod counts images", hint="add --model resnet50 or another image classifier"
        )
    if compared:
        raise UsageError(
            "--output horovod shows one run, not variants", hint="leave out --compare, --repeats"
        )


def render(result: BenchResult, output: Output) -> str:
    """Return the text for stdout."""
    from clusterctl.report import horovod, table, variants_table

    if result.variants:
        return variants_table.render(result)
    if output is Output.horovod and result.points:
        return horovod.render(result)
    return table.render(result)
