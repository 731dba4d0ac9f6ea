"""The run that ``undo --run`` names: its id, and what is said of one that nobody knows."""

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
    """Return the id; a run may be named by its folder, the nodes know it by the folder's name."""
    if run is None:
        return None
    name = run.rstrip("/").rpartition("/")[2]
    if not _RUN_ID.fullmatch(name):
        raise UsageError(f"{run!r} does not name a run", hint="give a run's id, as bootstrap printed it")
    return name


def refuse_unknown(run: str, outcomes: HostMap[UndoOutcome]) -> None:
    """Raise UsageError for a run that no node has in its journal and this machine has no folder of.

    A run that changed nothing on some of the nodes, or on all of them, is known by the others, or by its folder here.
    Where no node answered that is the failure to tell.
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
        hint = f"their latest runs are: {told}"
    else:
        hint = "no bootstrap has changed anything on them"
    if silent:
        hint += f"; {nodeset.fold(silent)} did not answer and may know it"
    raise UsageError(f"no run {name} is known on {nodeset.fold(answered)}", hint=hint)
