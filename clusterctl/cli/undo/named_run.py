"""``undo --run``: return the id of the named run, and reject a run that no node recorded."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl import run_ids
from clusterctl.errors import UsageError
from clusterctl.rundir import RunDir, is_run_folder
from clusterctl.text.grouping import grouped

if TYPE_CHECKING:
    from clusterctl.apply.undo import UndoOutcome
    from clusterctl.transport.base import HostMap

_TOLD = 5


def run_id(run: str | None, runs: Path | None, *, each: bool = False) -> str | None:
    """Return the id of a run that is given by its id, by a unique part of it, by ``latest``, or by its path.

    A whole id needs no run folder, because the nodes have the journals: another machine may have made the run. Raise
    UsageError if ``each`` (the latest run of each node) is wanted as well.
    """
    if run is None:
        return None
    if each:
        raise UsageError("--each and --run cannot be combined", hint="leave one of them out")
    name = run.rstrip("/").rpartition("/")[2]
    if run_ids.is_id(name):
        if run_ids.verb_of(name) != "bootstrap":
            raise UsageError(f"{name} is not a run of 'bootstrap'", hint="only a bootstrap can be undone")
        return name
    return RunDir.open(run, runs, ("bootstrap",), "apply").id


def refuse_unknown(run: str, outcomes: HostMap[UndoOutcome], *folders: Path) -> None:
    """Raise UsageError for a run that is in no node's journal and has none of these run folders.

    ``run`` is the whole id. A run that changed nothing on a node is missing in that node's journal; other journals or
    the run folder still show that it exists. If no node answered, the command reports that failure instead.
    """
    from clusterctl.inventory import nodeset

    answered = {node: o for node, o in outcomes.values_by_node.items() if o.failure is None}
    if not answered or any(o.known is None for o in answered.values()) or any(map(is_run_folder, folders)):
        return
    holders = grouped((known, node) for node, outcome in answered.items() for known in outcome.known or ())
    silent = [node for node in outcomes if node not in answered]
    close = get_close_matches(run, holders, n=3, cutoff=0.85)
    latest = sorted(holders)[-_TOLD:]
    told = "; ".join(f"{known} (on {nodeset.fold(holders[known])})" for known in close or latest)
    if close:
        hint = f"did you mean {told}?"
    elif latest:
        hint = f"the latest runs of these nodes are: {told}"
    else:
        hint = "these nodes have no journal of a bootstrap run"
    if silent:
        hint += f"; {nodeset.fold(silent)} did not answer and may have it"
    raise UsageError(f"no journal on {nodeset.fold(answered)} has the run {run}", hint=hint)
