"""``accept``: measure what a cluster must reach, and name the nodes that do."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console, report_files, times
from clusterctl.cli import options as cli
from clusterctl.cli.failed_launch import say_cause
from clusterctl.documents.accept import RowStatus, Tier
from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.acceptance.limits import AcceptLimits
    from clusterctl.cli.session import Session
    from clusterctl.documents.accept import Accept, AcceptRequest
    from clusterctl.inventory.model import Inventory
    from clusterctl.report.view import View


def accept(
    inventory: cli.InventoryArgument = None,
    limit: cli.LimitOption = None,
    tier: Annotated[
        Tier | None,
        typer.Option(
            "--tier",
            help="Run the rows of this tier and of the cheaper ones; default: performance, with --for stress.",
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ROW,..", help="Only these rows, of any tier.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="ROW,..", help="All rows except these.")
    ] = None,
    repeat: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Repeat the stress tier for so long: 90s, 10m, 24h."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="RUN", help="Continue a run that was interrupted, or rows that could not run."
        ),
    ] = None,
    thresholds: Annotated[
        Path | None,
        typer.Option(
            "--thresholds", metavar="FILE", help="Thresholds of this site; they replace shipped ones."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print the rows and thresholds that would apply, and why; measure nothing."
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also exit with 1 if a row has a warning.")
    ] = False,
    hostfile: Annotated[
        Path | None,
        typer.Option("--hostfile", metavar="FILE", help="Write an MPI hostfile of the accepted nodes."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write a page with all values, in one HTML file."),
    ] = None,
    junit: cli.JunitOption = None,
    prometheus: cli.PrometheusOption = None,
    drain: cli.DrainOption = None,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    label: cli.LabelOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Measure what a cluster must reach, and name the nodes that do.

    Each row measures one property: GPU arithmetic, memory, links, disks, network, collectives, training. Rows of one
    node run on all nodes at once. Each value is compared with thresholds, whose source is printed, and with the values
    of equal hardware. A row whose tool is missing is not measured, and its node is not accepted.

    Exit code 0: every node is accepted, warnings included; 1: a row is bad or did not run (with --strict also for a
    warning), or no row applies to a node, or a node is unreachable; 5: all nodes unreachable.
    """
    from clusterctl.acceptance import document as documents
    from clusterctl.acceptance.limits import limits
    from clusterctl.cli import draining
    from clusterctl.cli.accept import run as running
    from clusterctl.cli.session import open_session, session_of
    from clusterctl.rundir import default_root
    from clusterctl.views import accept as views

    runs = runs or default_root(inventory)
    report_files.refuse_unwritable(hostfile, html, junit, prometheus)
    if not dry_run:
        draining.require(drain)
    if resume is not None:
        _refuse_with_resume(inventory, limit, tier, only, skip, repeat, dry_run=dry_run)
        started = running.resumed(resume, runs, label, thresholds)
        session = session_of(started.inventory, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    else:
        found = limits(thresholds)
        repeat_s = times.seconds(repeat, "--for") if repeat is not None else 0.0
        request = running.request(
            tier or (Tier.STRESS if repeat is not None else Tier.PERFORMANCE),
            only,
            skip,
            repeat_s,
            thresholds,
        )
        session = open_session(
            inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys
        )
        if dry_run:
            _show_plan(session, request, found, as_json=as_json)
            return
        started = running.begun(request, session.inventory, found, runs, label)
    ended = running.carry_out(started, session, all_at_once=fanout is None)
    if strict:
        ended = documents.strictly(ended)
    view = views.view(ended)
    console.result(ended.document(), lambda: view, as_json=as_json)
    reports = report_files.EachReport()
    _write_reports(view, reports, html, junit, prometheus)
    if hostfile is not None and ended.accepted:
        _write_hostfile(hostfile, session.inventory, ended)
    draining.apply(drain, draining.of_accept(ended), ended.run, as_json=as_json)
    failed = any(row.status is RowStatus.FAIL for node in ended.nodes for row in node.rows)
    if failed or ended.cause is not None:
        say_cause(ended.cause, started.run)
    console.talk(f"run folder: {started.run.path}")
    reports.finish()
    raise typer.Exit(documents.exit_code(ended))


def _refuse_with_resume(*given: object, dry_run: bool) -> None:
    if dry_run or any(one is not None for one in given):
        raise UsageError(
            "--resume uses the inventory and the rows of the run that it continues",
            hint="leave out INVENTORY, --limit, --tier, --only, --skip, --for and --dry-run",
        )


def _write_reports(
    view: View,
    reports: report_files.EachReport,
    html: Path | None,
    junit: Path | None,
    prometheus: Path | None,
) -> None:
    if html is not None:
        from clusterctl.report.html import of_view as page

        with reports.of(html):
            report_files.write(html, page.render(view))
            console.talk(f"report: {html}")
    if junit is not None:
        from clusterctl.report import junit as written

        with reports.of(junit):
            report_files.write(junit, written.render("clusterctl accept", view.suites()))
    if prometheus is not None:
        from clusterctl.report import prometheus as monitored

        with reports.of(prometheus):
            report_files.write(prometheus, monitored.render(view.metrics()))


def _write_hostfile(path: Path, inventory: Inventory, found: Accept) -> None:
    from clusterctl.artifacts import hostfile

    kept = [(n.name, n.slots or n.gpus or 1) for n in inventory.nodes if n.name in found.accepted]
    comment = f"{len(kept)} of {len(found.nodes)} nodes, accepted in run {found.run}"
    report_files.write(path, hostfile.render(kept, comment=comment))


def _show_plan(session: Session, asked: AcceptRequest, limits: AcceptLimits, *, as_json: bool) -> None:
    """Gather facts, and print what a run would do; nothing is measured, and no run folder is left."""
    from clusterctl.acceptance import document as documents
    from clusterctl.acceptance.outcomes import OutcomeFile
    from clusterctl.cli.accept import run as running
    from clusterctl.cli.session import say_failures
    from clusterctl.views import accept as views

    rows = running.rows_of(asked)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = OutcomeFile(Path(folder))
        with running.engine_of(session, rows, outcomes, Path(folder), all_at_once=True) as engine:
            facts = engine.prepare()
            found = documents.planned(rows, list(engine.ready.values()), limits)
    console.result(found.document(), lambda: views.plan(found), as_json=as_json)
    say_failures(facts.failures)
