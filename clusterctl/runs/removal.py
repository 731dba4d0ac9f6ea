"""Remove runs, which are their run folders."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from clusterctl.containers.record import INVENTORY
from clusterctl.documents.runs import ListedRun, RunOutcome
from clusterctl.errors import ResultError, UsageError
from clusterctl.results import baseline_files
from clusterctl.rundir import RunDir, own_file


def refuse_in_use(run: RunDir) -> None:
    """Raise UsageError for a run that is in progress, or whose containers are up: their keys are in the run folder."""
    if run.in_progress:
        raise UsageError(f"run {run.id} is in progress", hint="remove it when it has ended")
    if run.holds(INVENTORY):
        raise UsageError(
            f"the containers of {run.id} are up", hint=f"remove them first: clusterctl down --run {run.id}"
        )


def losses(one: ListedRun, root: Path) -> list[str]:
    """Return what a user loses with a run, besides its documents."""
    found = [
        f"baseline {name!r} was recorded from it; the baseline keeps its figures"
        for name in _baselines_of(one.run, root)
    ]
    if one.outcome is RunOutcome.UNFINISHED and one.verb == "bootstrap":
        found.append(
            "it has steps left, and can no longer be resumed; undo --run still works, from the journals of the nodes"
        )
    return found


def _baselines_of(run: str, root: Path) -> Sequence[str]:
    names = []
    for name in baseline_files.names(root):
        try:
            if run in baseline_files.load(name, root).runs:
                names.append(name)
        except ResultError:
            continue  # a damaged baseline needs no run
    return names


def remove(run: RunDir) -> None:
    """Remove a run folder; raise UsageError if a process works on the run."""
    held = run.hold()
    with own_file(held.path, "remove the rest by hand", verb="remove"):
        shutil.rmtree(held.path)
