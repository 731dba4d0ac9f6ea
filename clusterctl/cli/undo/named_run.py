"""``undo --run``: return the id of the named run, and reject a run that no node recorded."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.apply.undo import UndoOutcome
    from clusterctl.transport.base import HostMap

_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-bootstrap-[0-9a-f]+")
_TOLD = 5


def run_id(run: str | None) -> str | None:
    """Return the id of a run that is given by its id or by the path of its run folder."""
    if run is None:
        return None
    name = run.rstrip("/").rpartition("/")[2]
    if not _RUN_ID.fullmatch(name):
        raise UsageError(f"{run!r} is not a valid run id", hint="give a run's id, as bootstrap printed it")
    return name


def refuse_unknown(run: str, outcomes: HostMap[UndoOutcome]) -> None:
    """Raise UsageError for a run that is in no node's journal and has no run folder on this machine.

    A run that changed nothing on a node is missing in that node's journal; other journals or the run folder still
    show that it exists. If no node answered, the command reports that failure instead.
    """
    from clusterctl.inventory import nodeset
    from clusterctl.rundir import default_root, is_run_folder

    name = run_id(run) or ""
    answered = {node: o for node, o in outcomes.values_by_node.items() if o.failure is None}
    folders = (Path(run), default_root() / name)
    if not answered or any(o.known is None for o in answered.values()) or any(map(is_run_folder, folders)):
        return
    holders: dict[str, list[str]] = {}
    for node, outcome in answered.items():
        for known in outcome.known or ():
            holders.setdefault(known, []).append(node)
    silent = [node for node in outcomes if node not in answered]
    close = get_close_matches(name, holders, n=3, cutoff=0.85)
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
    raise UsageError(f"no journal on {nodeset.fold(answered)} has the run {name}", hint=hint)
