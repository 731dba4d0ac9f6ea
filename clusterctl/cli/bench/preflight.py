"""``bench --preflight``: run the checks of :mod:`launch.ladder`, without a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterctl.cli import console
from clusterctl.cli.failed_launch import say_cause
from clusterctl.report.line import Tone

if TYPE_CHECKING:
    from clusterctl.cli.session import Session
    from clusterctl.documents.explain import KnownCause
    from clusterctl.launch.ladder import Climbed
    from clusterctl.launch.request import Request
    from clusterctl.report.view import View


def run(session: Session, request: Request, runs: Path | None, label: str | None, *, as_json: bool) -> int:
    """Run the checks, report how far they came, and return the exit code."""
    from clusterctl.cli.bench.live import LiveRun
    from clusterctl.cli.bench.run import runner_of, say_without, terminable
    from clusterctl.documents.launch import Launch
    from clusterctl.inventory.recorded import recorded
    from clusterctl.launch.ladder import Ladder
    from clusterctl.report.known_errors.run_logs import cause_in, of_ranks
    from clusterctl.report.text import of_view
    from clusterctl.report.text.failures import fault_hints
    from clusterctl.results.model import exit_code
    from clusterctl.rundir import RunDir

    folder = RunDir.create("preflight", runs, label)
    folder.write("inventory", recorded(session.inventory))
    with LiveRun() as live, terminable(), runner_of(session, folder, live) as runner:
        climbed = Ladder(request, runner, folder.folder("logs")).climb()
    folder.write("launch", Launch.model_validate({"launches": climbed.launches}).document())
    node_of = of_ranks(*(one["node_of_rank"] for one in climbed.launches))
    cause = cause_in(folder.path, node_of=node_of) if climbed.faults else None
    found = document(climbed, folder.id, cause)
    folder.write("preflight", found)
    if as_json:
        console.emit_json(found)
    else:
        console.data(of_view.lines(view(climbed), console.width()))
    for hint in fault_hints(climbed.faults):
        console.talk(f"hint: {hint}")
    say_without(climbed.faults, session.inventory.nodes)
    if climbed.faults:
        say_cause(cause, folder)
    console.talk(f"run folder: {folder.path}")
    return exit_code(climbed.faults)


def document(climbed: Climbed, run_id: str, cause: KnownCause | None) -> dict[str, Any]:
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
    ).document()


def view(climbed: Climbed) -> View:
    """Return one line for each rung, and each further failure of the rung that failed."""
    from clusterctl.report.text.failures import fault_messages
    from clusterctl.report.view import Block, Cell, Head, Table, View

    said = [message for _, message in fault_messages(climbed.faults)]
    rows = tuple(
        (
            Cell(rung.name),
            Cell(rung.status, Tone.BAD if rung.status == "failed" else Tone.PLAIN),
            Cell(said[0] if rung.status == "failed" else rung.detail),
        )
        for rung in climbed.rungs
    )
    heads = tuple(Head(name, words=True) for name in ("rung", "", ""))
    further = tuple(f"also: {message}" for message in said[1:])
    return View("", (Block("", tables=(Table(heads, rows),), after=further),))
