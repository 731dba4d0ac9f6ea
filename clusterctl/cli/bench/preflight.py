"""``bench --preflight``: run the checks of :mod:`launch.ladder`, without a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from clusterctl.cli import console
from clusterctl.cli.failed_launch import say_cause

if TYPE_CHECKING:
    from clusterctl.cli.session import Session
    from clusterctl.documents.explain import KnownCause
    from clusterctl.documents.launch import Preflight
    from clusterctl.launch.ladder import Climbed
    from clusterctl.launch.request import Request


def run(session: Session, request: Request, runs: Path | None, label: str | None, *, as_json: bool) -> int:
    """Run the checks, report how far they came, and return the exit code."""
    from clusterctl.cli.bench.live import LiveRun
    from clusterctl.cli.bench.run import runner_of, say_without, terminable
    from clusterctl.documents.launch import Launch
    from clusterctl.inventory.recorded import recorded
    from clusterctl.launch.ladder import Ladder
    from clusterctl.report.known_errors.run_logs import cause_in, of_ranks
    from clusterctl.report.text.failures import fault_hints
    from clusterctl.results.model import exit_code
    from clusterctl.rundir import RunDir
    from clusterctl.views import preflight

    folder = RunDir.create("preflight", runs, label)
    folder.write("inventory", recorded(session.inventory))
    with LiveRun() as live, terminable(), runner_of(session, folder, live) as runner:
        climbed = Ladder(request, runner, folder.folder("logs")).climb()
    folder.write("launch", Launch.model_validate({"launches": climbed.launches}).document())
    node_of = of_ranks(*(one["node_of_rank"] for one in climbed.launches))
    cause = cause_in(folder.path, node_of=node_of) if climbed.faults else None
    found = document(climbed, folder.id, cause)
    folder.write("preflight", found.document())
    shown = preflight.view(found)
    console.result(found.document(), lambda: shown, as_json=as_json)
    # The hints of the failures that the lines above name, unless a terminal shows them in the sentence.
    above = shown.sentence if not as_json and console.is_one_screen() else ""
    for hint in fault_hints(climbed.faults):
        if hint not in above:
            console.talk(f"hint: {hint}")
    say_without(climbed.faults, session.inventory.nodes)
    if climbed.faults:
        say_cause(cause, folder)
    console.talk(f"run folder: {folder.path}")
    return exit_code(climbed.faults)


def document(climbed: Climbed, run_id: str, cause: KnownCause | None) -> Preflight:
    """Return the command's JSON document."""
    from clusterctl.documents.launch import Preflight, Rung, RungStatus
    from clusterctl.documents.words import Success

    return Preflight(
        run=run_id,
        library=climbed.library,
        launcher=climbed.launcher,
        status=Success.FAILED if climbed.faults else Success.OK,
        cause=cause,
        rungs=tuple(
            Rung(name=rung.name, status=RungStatus(rung.status), detail=rung.detail) for rung in climbed.rungs
        ),
        failures=climbed.faults,
    )
