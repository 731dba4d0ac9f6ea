"""Print the next command of the way: check, bootstrap, bench, accept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.cli import console

if TYPE_CHECKING:
    from clusterctl.report.view import NextStep
    from clusterctl.views.next_step import Way


def say(command: str, why: str = "") -> None:
    """Print one next command to stderr."""
    from clusterctl.report.view import NextStep

    say_all((NextStep(command, why),))


def say_all(steps: Iterable[NextStep]) -> None:
    """Print the next commands to stderr."""
    import shutil
    import sys

    from clusterctl.report.text.wrapping import next_lines

    width = shutil.get_terminal_size((120, 24)).columns if sys.stderr.isatty() else None
    for line in next_lines(steps, width):
        console.talk(line)


def way(
    inventory: Path | None,
    limit: Sequence[str] | None,
    only: Sequence[str] | None = None,
    skip: Sequence[str] | None = None,
    *,
    runs: Path | None,
    is_local: bool = False,
) -> Way:
    """Return the commands for the nodes and the requirements that a command line chose."""
    from clusterctl.views.next_step import Way

    nodes = () if inventory is None else (str(inventory),)
    return Way(
        (*nodes, *_options("--limit", limit)),
        (*_options("--only", only), *_options("--skip", skip)),
        is_local and inventory is None,
        _measured(runs),
    )


def _measured(runs: Path | None) -> bool:
    """Return whether the newest benchmark of the runs ended well; one that failed is to be typed again."""
    from clusterctl import run_ids, rundir
    from clusterctl.documents.runs import RunOutcome
    from clusterctl.runs import outcome

    for one in rundir.ids(runs, run_ids.BENCHMARKS, "results")[:1]:
        ended = outcome.listed(rundir.RunDir.open(one, runs)).outcome
        return ended not in (RunOutcome.FAILED, RunOutcome.UNREADABLE)
    return False


def _options(flag: str, values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(word for value in values or () for word in (flag, value))
