"""``accept --dry-run``: which rows would run on which nodes, and which thresholds would apply, with their sources."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.cli import console
from clusterctl.cli.accept import run as running
from clusterctl.cli.session import say_failures

if TYPE_CHECKING:
    from clusterctl.acceptance.limits import AcceptLimits
    from clusterctl.cli.session import Session
    from clusterctl.documents.accept import AcceptRequest


def show(session: Session, asked: AcceptRequest, limits: AcceptLimits, *, as_json: bool) -> None:
    """Gather facts, and print what a run would do; nothing is measured, and no run folder is left."""
    from clusterctl.acceptance import plan
    from clusterctl.acceptance.outcomes import OutcomeFile
    from clusterctl.report.text import of_view
    from clusterctl.views import accept_plan

    rows = running.rows_of(asked)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = OutcomeFile(Path(folder))
        with running.engine_of(session, rows, outcomes, Path(folder), all_at_once=True) as engine:
            facts = engine.prepare()
            found = plan.document(rows, list(engine.ready.values()), limits)
    if as_json:
        console.emit_json(found.document())
    else:
        console.data(of_view.lines(accept_plan.view(found), console.width()))
    say_failures(facts.failures)
