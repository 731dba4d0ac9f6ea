"""``locate``: name the node, rail or link that is slow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console, times
from clusterctl.cli import options as cli
from clusterctl.cli.failed_launch import say_cause
from clusterctl.cli.terminal import interrupt

if TYPE_CHECKING:
    from clusterctl.cli.session import Session
    from clusterctl.documents.explain import KnownCause
    from clusterctl.documents.locate import Locate
    from clusterctl.launch.base import LaunchPlan
    from clusterctl.launch.locate import LocateRun
    from clusterctl.launch.request import Request
    from clusterctl.report.view import View
    from clusterctl.rundir import RunDir

_TIMEOUT_S = 300.0


def locate(
    inventory: cli.InventoryArgument = None,
    limit: cli.LimitOption = None,
    library: Annotated[
        str | None,
        typer.Option("--library", metavar="LIBRARY", help="nccl, gloo or ccore; default: as for bench."),
    ] = None,
    launcher: Annotated[
        str | None,
        typer.Option(
            "--launcher",
            metavar="LAUNCHER",
            help="openmpi, mpich, torchrun, srun, or local; default: as for bench.",
        ),
    ] = None,
    np: Annotated[
        int | None,
        typer.Option(
            "-np",
            "--np",
            min=2,
            metavar="N",
            help="Number of ranks; default: every GPU, or without GPUs one rank per interface in socket_ifname.",
            show_default=False,
        ),
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1.0, metavar="SECONDS", help="Maximum time of the launch.")
    ] = _TIMEOUT_S,
    repeat: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TIME",
            help="Then repeat random pairs for so long, to find what is slow at times: 90s, 10m, 2h.",
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--bytes",
            metavar="SIZE",
            help="Size of a message between two nodes, 64K at least: less than the default on a slow network.",
            show_default="64M, without GPUs 4M",
        ),
    ] = None,
    hostfile_without: Annotated[
        Path | None,
        typer.Option(
            "--hostfile-without",
            metavar="FILE",
            help="Write an MPI hostfile of the nodes that were not named.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write a page of the run, in one HTML file."),
    ] = None,
    drain: cli.DrainOption = None,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    label: cli.LabelOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Name the node, rail or link that is slow.

    Every rank first measures its own GPU or CPU, then all rails measure rounds of pairs with different partners. What
    looks slow is measured again beside healthy pairs, until chance is ruled out. Three nodes are needed to name one.

    Exit code 0: nothing is slow; 1: a node, rail or link was named, or so many are slow that the run is inconclusive;
    5: a node is unreachable; 10: a rank died, hung or did not start; 11: the output cannot be read.
    """
    from clusterctl.cli import draining
    from clusterctl.cli.bench.request import parse_size
    from clusterctl.cli.report_files import refuse_unwritable
    from clusterctl.cli.session import open_session
    from clusterctl.launch import choose
    from clusterctl.launch import locate as launching
    from clusterctl.report.known_errors.run_logs import cause_in, of_ranks
    from clusterctl.results import locate
    from clusterctl.results import locate as results
    from clusterctl.rundir import default_root
    from clusterctl.views import locate as locate_view

    runs = runs or default_root(inventory)
    cli.require_seconds(timeout_s)
    repeat_s = times.seconds(repeat, "--for") if repeat is not None else 0.0
    refuse_unwritable(hostfile_without, html)
    draining.require(drain)
    session = open_session(inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    choose.require_servable(launcher, len(session.inventory.nodes))
    message_bytes = parse_size(message) if message is not None else None
    asked = launching.request(library, np, launcher, timeout_s, message_bytes)
    run, found = _measured(session, asked, runs, label, repeat_s)
    document = results.document(found, run.id)
    if found.faults:
        cause = cause_in(run.path, node_of=of_ranks(found.located.fleet.node_of_rank))
        document = document.model_copy(update={"cause": cause})
    run.write("results", document.document())
    told = locate.lines(locate.before(runs, document))
    view = locate_view.view(document, told)
    console.result(document.document(), lambda: view, as_json=as_json)
    if hostfile_without is not None and (found.located.verdict is not None or found.apart.nodes):
        _write_hostfile(hostfile_without, session, document)
    if html is not None:
        _write_page(html, view)
    is_above = not as_json and console.is_one_screen()
    _say_failures(run, found, document.cause, session, view.sentence if is_above else "")
    draining.apply(drain, draining.of_locate(document), run.id, as_json=as_json)
    raise typer.Exit(results.exit_code(found))


def _measured(
    session: Session, asked: Request, runs: Path | None, label: str | None, repeat_s: float
) -> tuple[RunDir, LocateRun]:
    """Measure in a new run folder, which keeps inventory, facts, command and logs."""
    from clusterctl.artifacts import shell
    from clusterctl.cli.bench.run import runner_of, terminable
    from clusterctl.cli.locate.live import LocateViewer
    from clusterctl.cli.terminal.progress import Progress
    from clusterctl.documents.launch import Artifacts, Command, Launch
    from clusterctl.inventory.recorded import recorded
    from clusterctl.launch import locate as launching
    from clusterctl.rundir import RunDir

    run = RunDir.create("locate", runs, label)
    run.write("inventory", recorded(session.inventory))

    def starting(plan: LaunchPlan) -> None:
        viewer.started(len(plan.placements))
        commands = (Command(np=plan.np, line=shell.line(plan.argv)),)
        run.write("artifacts", Artifacts(commands=commands).document())

    left = "All ranks were ended, and no result is stored."
    with (
        interrupt.explained(left, "To measure again"),
        Progress("Locating what is slow", done="Measured all rounds") as progress,
    ):

        def say(text: str) -> None:
            if text.startswith("note: "):
                progress.line(text)
            else:
                progress.say(text)

        viewer = LocateViewer(progress.say)
        with terminable(), runner_of(session, run, viewer, launching.ALSO_READS) as runner:
            found = launching.run(asked, runner, run.folder("logs"), say, starting, repeat_s)
        if found.faults:
            progress.done = ""
    run.write("launch", Launch.model_validate({"launches": found.launches}).document())
    return run, found


def _say_failures(
    run: RunDir, found: LocateRun, cause: KnownCause | None, session: Session, above: str
) -> None:
    from clusterctl.cli.bench.run import say_without
    from clusterctl.report.text.failures import fault_lines

    for line in fault_lines(found.faults, above):
        console.talk(line)
    say_without(found.faults, session.inventory.nodes)
    if found.faults:
        say_cause(cause, run)
    console.talk(f"run folder: {run.path}")


def _write_hostfile(path: Path, session: Session, document: Locate) -> None:
    from clusterctl.artifacts import hostfile
    from clusterctl.cli import report_files

    without = document.named_nodes
    kept = [
        (node.name, node.slots or node.gpus or 1)
        for node in session.inventory.nodes
        if node.name not in without
    ]
    named = f"without {', '.join(without)}, which locate named" if without else "locate named no node"
    report_files.write(path, hostfile.render(kept, comment=f"{named} in run {document.run}"))


def _write_page(path: Path, view: View) -> None:
    from clusterctl.cli import report_files
    from clusterctl.report.html import of_view

    report_files.write(path, of_view.render(view))
    console.talk(f"report: {path}")
