"""Carry out ``accept``: the run folder, the rows, what differed measured again, the repeats, and the document."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clusterctl.acceptance.engine import AcceptViewer
from clusterctl.acceptance.model import AcceptRow, RowOutcome
from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.cli.bench.run import terminable
from clusterctl.cli.terminal import interrupt
from clusterctl.cli.terminal.progress import Progress, share
from clusterctl.documents.accept import Accept, AcceptRequest, Tier
from clusterctl.errors import ClusterctlError

if TYPE_CHECKING:
    from clusterctl.acceptance.engine import AcceptEngine
    from clusterctl.acceptance.limits import AcceptLimits
    from clusterctl.acceptance.model import AcceptRow, RowOutcome
    from clusterctl.acceptance.outcomes import OutcomeFile
    from clusterctl.cli.session import Session
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.model import Inventory
    from clusterctl.rundir import RunDir


REQUEST = "accept"
"""The stage of the run folder that holds the request."""
THRESHOLDS = "thresholds"
"""The stage that holds the site's thresholds, if the run has any: its file may change before the run continues."""
_MOST_AT_ONCE = 256
_PAUSE_S = 60.0
"""The wait before the next repeat, if no node answers."""


@dataclass(frozen=True, slots=True)
class AcceptRun:
    """A run that begins or goes on: its run folder, what was requested, its nodes and its thresholds."""

    run: RunDir
    request: AcceptRequest
    inventory: Inventory
    limits: AcceptLimits


def request(
    tier: Tier,
    only: Sequence[str] | None,
    skip: Sequence[str] | None,
    repeat_for_s: float,
    thresholds: Path | None,
) -> AcceptRequest:
    """Return the request; raise UsageError for unknown rows, or for repeats without a row of the stress tier."""
    from clusterctl.acceptance.catalog import ROWS, chosen
    from clusterctl.errors import UsageError

    known = [row.name for row in ROWS]
    rows = chosen(ROWS, tier, cli.names(only, known), cli.names(skip, known) or ())
    if repeat_for_s and not any(row.tier is Tier.STRESS for row in rows):
        raise UsageError(
            "--for repeats the rows of the tier stress, and none of them is requested",
            hint="add --tier stress, or name one of them in --only",
        )
    return AcceptRequest(
        tier=tier,
        rows=tuple(row.name for row in rows),
        site_thresholds=None if thresholds is None else str(thresholds),
        repeat_for_s=repeat_for_s,
        repeat_until=None,
    )


def begun(
    asked: AcceptRequest, inventory: Inventory, limits: AcceptLimits, runs: Path | None, label: str | None
) -> AcceptRun:
    """Return a new run with its run folder."""
    from clusterctl.inventory.recorded import recorded
    from clusterctl.rundir import RunDir

    run = RunDir.create("accept", runs, label)
    run.write("inventory", recorded(inventory))
    _record(run, asked, limits)
    return AcceptRun(run, asked, inventory, limits)


def _record(run: RunDir, asked: AcceptRequest, limits: AcceptLimits) -> None:
    """Write the request last: a run that has one is complete."""
    if limits.site is not None:
        run.write(THRESHOLDS, limits.site.model_dump(mode="json"))
    run.write(REQUEST, asked.document())


def resumed(name: str, runs: Path | None, label: str | None, thresholds: Path | None) -> AcceptRun:
    """Return an earlier run, to continue it; raise UsageError or ConfigError if that is not possible.

    Without ``thresholds``, the run keeps those of its start; new ones also judge the rows that are finished.
    """
    from pydantic import ValidationError

    from clusterctl.acceptance import limits as thresholds_of
    from clusterctl.errors import ConfigError
    from clusterctl.inventory.model import Inventory
    from clusterctl.rundir import RunDir
    from clusterctl.text import model_errors

    run = RunDir.open(name, runs, ("accept",), REQUEST).hold(label)
    try:
        asked = AcceptRequest.model_validate(run.read(REQUEST))
        inventory = Inventory.model_validate(run.read("inventory"))
        if thresholds is None and asked.site_thresholds is not None:
            limits = thresholds_of.recorded(run.read(THRESHOLDS))
        else:
            limits = thresholds_of.limits(thresholds)
    except ValidationError as error:
        raise ConfigError(
            f"run {run.id} is damaged: {model_errors.first(error)}", hint="start a new run"
        ) from None
    if thresholds is not None:
        asked = asked.model_copy(update={"site_thresholds": str(thresholds)})
        _record(run, asked, limits)
    return AcceptRun(run, asked, inventory, limits)


def rows_of(asked: AcceptRequest) -> tuple[AcceptRow, ...]:
    """Return the rows of a request, in the order of the catalog."""
    from clusterctl.acceptance.catalog import ROWS

    return tuple(row for row in ROWS if row.name in asked.rows)


def engine_of(
    session: Session,
    rows: Sequence[AcceptRow],
    outcomes: OutcomeFile,
    logs: Path,
    *,
    all_at_once: bool,
) -> AcceptEngine:
    """Return the engine for the nodes of a session. ``all_at_once``: no fan-out was requested, so rows do not wait."""
    import os

    from clusterctl.acceptance.engine import AcceptEngine, EngineSettings
    from clusterctl.transport.ssh.target import KNOWN_HOSTS_VARIABLE

    nodes = session.inventory.nodes
    fanout = max(session.fanout, min(len(nodes), _MOST_AT_ONCE)) if all_at_once else session.fanout
    settings = EngineSettings(
        fanout=fanout,
        probe_timeout_s=session.command_timeout_s,
        escalate=session.may_ask_for_root,
        known_hosts=os.environ.get(KNOWN_HOSTS_VARIABLE),
    )
    return AcceptEngine(nodes, session.connected(), settings, rows, outcomes, logs)


def carry_out(started: AcceptRun, session: Session, *, all_at_once: bool) -> Accept:
    """Run what is left of a run, judge it, and write its result."""
    from clusterctl.acceptance import document as documents
    from clusterctl.acceptance.engine import SUBJECTS_READ
    from clusterctl.acceptance.judge import judge
    from clusterctl.acceptance.outcomes import OutcomeFile
    from clusterctl.facts.document import fleet_to_document
    from clusterctl.report.known_errors.run_logs import cause_in

    run, limits, began = started.run, started.limits, time.monotonic()
    rows = rows_of(started.request)
    outcomes = OutcomeFile(run.path)
    again = f"To continue: clusterctl accept --resume {run.path}"
    try:
        with (
            terminable(),
            engine_of(session, rows, outcomes, run.folder("logs"), all_at_once=all_at_once) as engine,
        ):
            engine.before = _facts_before(run)
            with Progress("Gathering facts", len(session.inventory.nodes), "nodes") as progress:
                facts = engine.prepare()
                progress.done = f"Gathered facts of {share(len(engine.ready), len(facts), 'node')}"
            if not run.holds("facts.json"):
                run.write("facts", fleet_to_document(facts, SUBJECTS_READ))
            _require_acceptable(rows, engine)
            _rows(engine, [row for row in rows if not row.at_the_end], 0, limits, outcomes)
            _repeat(started, engine, rows, limits, outcomes)
            engine.run([row for row in rows if row.at_the_end])
    except KeyboardInterrupt:
        interrupt.tell("Finished rows are kept; the rows that were running are not.")
        interrupt.tell(again)
        raise
    judged = judge(outcomes.all, limits)
    failed = {one.log: one.node for one in outcomes.all if one.log and (one.failed or one.not_run)}
    names = [node.name for node in started.inventory.nodes]
    found = documents.document(
        run.id, started.request, rows, names, judged, facts.failures, time.monotonic() - began
    ).model_copy(update={"cause": cause_in(run.path, failed, failed.get) if failed else None})
    run.write("results", found.document())
    return found


def _require_acceptable(rows: Sequence[AcceptRow], engine: AcceptEngine) -> None:
    """Print which rows lack their tools; if no node can be accepted without them, ask before nodes are loaded.

    Raise ClusterctlError without a terminal, and Exit if the person declines.
    """
    from clusterctl.inventory import nodeset
    from clusterctl.text.grouping import grouped
    from clusterctl.text.wording import counted, some

    lacking, loads = _cannot_run(rows, engine)
    for reasons, names in grouped((reasons, name) for name, reasons in lacking.items()).items():
        what = "; ".join(dict.fromkeys(why for _, why in reasons))
        listed = some([row for row, _ in reasons])
        cannot = f"{counted(len(reasons), 'row')} ({listed}) cannot run on {nodeset.fold(names)}: {what}"
        console.talk(f"note: {cannot}")
    if not loads or lacking.keys() != engine.ready.keys():
        return
    skipped = ",".join(dict.fromkeys(row for reasons in lacking.values() for row, _ in reasons))
    problem = f"no node can be accepted, because these rows cannot run: {skipped}"
    if not console.is_attended():
        hint = f"install what they need, or leave them out: --skip {skipped}"
        raise ClusterctlError(f"{problem}; no node was loaded", hint=hint)
    if not interrupt.asked(f"{problem}. Measure the others anyway?"):
        console.talk("no node was loaded")
        raise typer.Exit(1)


def _cannot_run(
    rows: Sequence[AcceptRow], engine: AcceptEngine
) -> tuple[dict[str, tuple[tuple[str, str], ...]], bool]:
    """Return the rows of each node without their tools, with the reasons, and whether a row would load a node."""
    lacking: dict[str, tuple[tuple[str, str], ...]] = {}
    loads = False
    for name, ready in engine.ready.items():
        begun = {row.name: ready.start(row, 0) for row in rows}
        runs = {one for one, outcome in begun.items() if not outcome.not_run and not outcome.not_applicable}
        loads = loads or any(row.name in runs and row.tier in (Tier.PERFORMANCE, Tier.STRESS) for row in rows)
        open_rows = [row.name for row in rows if row.also_measured_by not in runs]
        if reasons := tuple((one, why) for one in open_rows if (why := begun[one].not_run)):
            lacking[name] = reasons
    return lacking, loads


def _facts_before(run: RunDir) -> dict[str, NodeFacts]:
    """Return the facts at the first start of the run, so that what it added since then is known."""
    from clusterctl.facts.document import fleet_from_document

    return fleet_from_document(run.read("facts")) if run.holds("facts.json") else {}


def _rows(
    engine: AcceptEngine, rows: Sequence[AcceptRow], repeat: int, limits: AcceptLimits, outcomes: OutcomeFile
) -> None:
    """Run rows once, and measure again where a node differs from the fleet."""
    from clusterctl.acceptance.judge import judge

    what = f"Repeat {repeat + 1}" if repeat else "Running rows"
    with Progress(what, len(engine.ready) * len(rows), "rows") as progress:
        engine.viewer = RowProgress(progress)
        engine.run(rows, repeat)
        far = [
            one.outcome
            for one in judge([o for o in outcomes.all if o.repeat == repeat], limits)
            if one.is_far and not one.outcome.again
        ]
        if far:
            progress.say("measuring again what differs from the fleet")
            engine.measure_again(far)
        ran = _ran(rows, [o for o in outcomes.all if o.repeat == repeat])
        nodes = len(engine.ready)
        progress.done = f"Ran {share(ran, len(rows), 'row')} on {share(nodes, nodes, 'node')}"


def _ran(rows: Sequence[AcceptRow], outcomes: Sequence[RowOutcome]) -> int:
    """Return how many of the rows ran on at least one node."""
    ran = {one.row for one in outcomes if not one.not_run and not one.not_applicable}
    return sum(row.name in ran for row in rows)


def _repeat(
    started: AcceptRun,
    engine: AcceptEngine,
    rows: Sequence[AcceptRow],
    limits: AcceptLimits,
    outcomes: OutcomeFile,
) -> None:
    """Repeat the stress tier until its time has passed, also across interrupts of the controller."""
    from clusterctl.acceptance.engine import UNREACHABLE

    asked = started.request
    if not asked.repeat_for_s:
        return
    until = asked.repeat_until
    if until is None:
        until = time.time() + asked.repeat_for_s
        started.run.write(REQUEST, asked.model_copy(update={"repeat_until": until}).document())
    stress = [row for row in rows if row.tier is Tier.STRESS]
    repeat = max((one.repeat for one in outcomes.all), default=0)
    while time.time() < until and engine.ready:
        repeat += not _unfinished(engine, stress, repeat, outcomes)
        _rows(engine, stress, repeat, limits, outcomes)
        of_repeat = [one for one in outcomes.all if one.repeat == repeat]
        if any(not one.not_run and not one.not_applicable for one in of_repeat):
            continue
        if not any(one.not_run.startswith(UNREACHABLE) for one in of_repeat):
            console.talk("no row of the tier stress can run on any node, so that nothing is repeated")
            return
        time.sleep(max(0.0, min(_PAUSE_S, until - time.time())))


def _unfinished(engine: AcceptEngine, rows: Sequence[AcceptRow], repeat: int, outcomes: OutcomeFile) -> bool:
    """Return whether a repeat was interrupted, so that it goes on; the first one, 0, is that of all rows."""
    done = {(one.node, one.row) for one in outcomes.all if one.repeat == repeat}
    return repeat > 0 and any((name, row.name) not in done for name in engine.ready for row in rows)


class RowProgress(AcceptViewer):
    """Count finished rows, and show what runs on each node."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def starting(self, node: str, row: AcceptRow) -> None:
        """Show a row that starts on a node."""
        self._progress.now(node, row.title)

    def ended(self, outcome: RowOutcome) -> None:
        """Count a row that ended on a node."""
        self._progress.advance(outcome.node)

    def say(self, text: str) -> None:
        """Show a line of progress."""
        self._progress.say(text)
