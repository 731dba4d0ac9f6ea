"""Store the result of ``bench`` in the database; a failure there does not change the run's result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clusterctl.cli import console
from clusterctl.errors import ClusterctlError

if TYPE_CHECKING:
    from clusterctl.results.record import Record
    from clusterctl.rundir import RunDir


def store(run: RunDir, document: Mapping[str, Any], commands: Sequence[str]) -> Record:
    """Store a run's document in the database next to its run folder, and return the record.

    If that fails, print a warning to stderr.
    """
    from clusterctl.results import record
    from clusterctl.results.store import Store

    entry = record.from_document(document, commands=commands, folder=str(run.path.resolve()), label=run.label)
    try:
        with Store.open(run.path.parent) as results:
            results.save(entry)
    except ClusterctlError as error:
        console.talk(f"warning: the result was not stored: {error.message}")
        if error.hint:
            console.talk(f"hint: {error.hint}")
    return entry
