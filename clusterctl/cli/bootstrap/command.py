"""``bootstrap``: bring each node to its required state, and report the result."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterctl.cli import console, next_command
from clusterctl.cli import options as cli
from clusterctl.cli.bootstrap import permits as permits_of
from clusterctl.cli.bootstrap.shown import Shown
from clusterctl.cli.named_inventory import LocalOption, to_change
from clusterctl.cli.terminal import interrupt

if TYPE_CHECKING:
    from clusterctl.apply.bootstrap import Engine, Prepared, Result
    from clusterctl.apply.execute import NodeOutcome, StepOutcome
    from clusterctl.apply.rolling import Rolling
    from clusterctl.cli.session import Session
    from clusterctl.documents import steps
    from clusterctl.inventory.model import Inventory, Node
    from clusterctl.report.view import NextStep
    from clusterctl.rundir import RunDir
    from clusterctl.transport.kept import Kept
    from clusterctl.views.next_step import Way

# Well below the default limit of 1024 open files per process.
_KEPT_CONNECTIONS = 256


def bootstrap(
    inventory: cli.InventoryArgument = None,
    local: LocalOption = False,
    limit: cli.LimitOption = None,
    only: cli.OnlyOption = None,
    skip: cli.SkipOption = None,
    dry_run: cli.DryRunOption = False,
    yes: cli.YesOption = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Continue an interrupted run, with its inventory: its id, a unique part, or 'latest'.",
        ),
    ] = None,
    reboot: Annotated[
        bool, typer.Option("--reboot", help="Allow reboots of nodes without logged-in users or running work.")
    ] = False,
    force_reboot: Annotated[
        bool, typer.Option("--force-reboot", help="Allow reboots even if nodes are in use.")
    ] = False,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            metavar="N|P%",
            help="Nodes per batch; a batch starts when the one before has finished.",
        ),
    ] = None,
    max_failures: Annotated[
        str | None,
        typer.Option(
            "--max-failures", metavar="N|P%", help="Start no further node after this many have failed."
        ),
    ] = None,
    node_timeout: Annotated[
        float | None,
        typer.Option(
            "--node-timeout",
            min=1.0,
            metavar="SECONDS",
            help="Maximum time for one node, all its steps together.",
        ),
    ] = None,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    label: cli.LabelOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Plan the missing changes, ask, apply them, and check again.

    clusterctl plans and applies in rounds until no new step is possible.

    Exit code 0: all requirements met or not applicable; 1: a requirement unmet or unknown, a step failed, or a node
    unreachable; 5: all nodes unreachable.
    """
    from clusterctl.apply import bootstrap as engine_of
    from clusterctl.apply import journal
    from clusterctl.apply.journal import Options
    from clusterctl.apply.rolling import Rolling
    from clusterctl.cli.session import open_session, session_of
    from clusterctl.requirements import judge
    from clusterctl.rundir import RunDir, default_root
    from clusterctl.runs import counts
    from clusterctl.transport.kept import Kept

    wanted, unwanted = cli.requirement_names(only), cli.requirement_names(skip) or ()
    judge.validate_names(wanted, unwanted)
    (rolling := Rolling(batch, max_failures)).check()
    if node_timeout is not None:
        cli.require_seconds(node_timeout, "--node-timeout")
    permits = permits_of.Permits(reboot or force_reboot, force_reboot, node_timeout)
    with Kept(_KEPT_CONNECTIONS) as kept:
        with interrupt.changes_nothing(can_limit=resume is None):
            if resume is not None:
                _refuse_with_resume(inventory, local or None, limit, only, skip)
                run = RunDir.open(resume, runs, ("bootstrap",), "apply").hold(label)
                session = session_of(
                    engine_of.stored_inventory(run), fanout=fanout, accept_new_host_keys=accept_new_host_keys
                )
                stored, _ = journal.stored_options(run)
                engine = permits.on(
                    _engine(session, run, kept, judge.subjects_read(stored.only, stored.skip))
                )
                prepared = _without_busy(engine, _resumed(engine, run, rolling), run)
            else:
                session = open_session(
                    to_change(inventory, verb="bootstrap", local=local, dry_run=dry_run, assume_yes=yes),
                    limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys,
                )  # fmt: skip
                judge.refuse_nothing_to_judge(session.inventory.nodes, wanted, unwanted)
                run = RunDir.create("bootstrap", runs or default_root(inventory), label)
                engine = permits.on(_engine(session, run, kept, judge.subjects_read(wanted, unwanted)))
                options = Options(wanted, unwanted, rolling)
                prepared = _without_busy(
                    engine, engine_of.prepare(engine, session.inventory, options, run), run
                )
            session.refuse_wrong_password()
            asks = not dry_run and not yes and not prepared.plan.is_empty
            shown = Shown(engine, prepared.inventory, on_stdout=not as_json, on_screen=asks)
            shown.first(prepared, permits)
            declined = asks and not interrupt.asked(f"Apply {shown.work}, and what becomes possible then?")
        ends = dry_run or declined or not _has_work(prepared, resumed=resume is not None)
        result = None if ends else _applied(engine, prepared, run, shown)
    document = (found := result_of(run, prepared, result)).document()
    run.write("report", document)
    if declined:
        console.talk("nothing was changed")
    if as_json:
        console.emit_json(document)
    elif not declined:
        console.data(shown.ended(found, prepared, result, run.path))
    if not declined:
        next_command.say_all(
            _following(
                prepared,
                result,
                run,
                next_command.way(inventory or _source(prepared.inventory), limit, runs=run.path.parent),
                dry_run=dry_run,
                asks=not yes,
            )
        )
    raise typer.Exit(1 if declined else counts.exit_code(document))


def _without_busy(engine: Engine, prepared: Prepared, run: RunDir) -> Prepared:
    from clusterctl.apply import busy
    from clusterctl.cli.live_steps import LiveNodes
    from clusterctl.cli.terminal.progress import Progress

    with Progress("Looking for other runs", unit="nodes") as progress:
        return busy.left_out(engine, prepared, run, LiveNodes(progress))


def _refuse_with_resume(*given: object) -> None:
    from clusterctl.errors import UsageError

    if any(one is not None for one in given):
        raise UsageError(
            "--resume uses the inventory and the requirements of the run that it continues",
            hint="leave out INVENTORY, --local, --limit, --only and --skip",
        )


def _resumed(engine: Engine, run: RunDir, given: Rolling) -> Prepared:
    """Prepare the rest of an interrupted run; the limits of its first part apply unless others are given."""
    from clusterctl.apply import bootstrap as engine_of
    from clusterctl.apply.rolling import Rolling

    prepared = engine_of.prepare_resumed(engine, run)
    earlier = prepared.options.rolling
    rolling = Rolling(given.batch or earlier.batch, given.max_failures or earlier.max_failures)
    return replace(prepared, options=replace(prepared.options, rolling=rolling))


def _has_work(prepared: Prepared, *, resumed: bool) -> bool:
    """Return whether the run applies something; a run with unreachable nodes is recorded, so that it can be resumed."""
    return resumed or not prepared.plan.is_empty or bool(prepared.verdicts.failures)


def _applied(engine: Engine, prepared: Prepared, run: RunDir, shown: Shown) -> Result:
    from clusterctl.apply import bootstrap as engine_of
    from clusterctl.cli.session import say_failures
    from clusterctl.views.bootstrap import failures_of

    again = _again(run)
    back = shlex.join(("clusterctl", "undo", prepared.inventory.source or "--local", "--run", run.id))
    try:
        result = engine_of.apply(engine, prepared, run, shown.later)
    except KeyboardInterrupt:
        interrupt.tell("Each node finishes its current step and starts no other.")
        interrupt.tell(f"To continue: {again}")
        interrupt.tell(f"To undo: {back}")
        raise
    if not shown.on_stdout:
        say_failures(failures_of(result))
    permits_of.say_not_started([n for n, o in result.outcomes.items() if not o.started])
    return result


def _again(run: RunDir) -> str:
    return shlex.join(("clusterctl", "bootstrap", "--resume", str(run.path)))


def _source(inventory: Inventory) -> Path | None:
    return Path(inventory.source) if inventory.source else None


def _following(
    prepared: Prepared, result: Result | None, run: RunDir, way: Way, *, dry_run: bool, asks: bool
) -> Iterator[NextStep]:
    """Yield how the work continues: the same command, the rest of the run, or what follows the verdicts."""
    from clusterctl.inventory import nodeset
    from clusterctl.report.view import NextStep
    from clusterctl.views.next_step import after_bootstrap

    if result is None:
        if prepared.busy and not dry_run:
            yield NextStep(
                interrupt.command_line(), f"once the other run on {nodeset.fold(prepared.busy)} has ended"
            )
        elif dry_run and not prepared.plan.is_empty:
            why = "shows this plan, and asks" if asks else "applies this plan"
            yield NextStep(interrupt.command_line(without="--dry-run"), why)
        else:
            yield from after_bootstrap(prepared.verdicts, way)
        return
    again = _again(run)
    if any(outcome.failure or outcome.failed for outcome in result.outcomes.values()):
        yield NextStep(again, "once the cause is fixed: does the remaining steps")
    elif prepared.busy:
        free = nodeset.fold(prepared.busy)
        yield NextStep(again, f"once the other run on {free} has ended: includes it")
    elif prepared.verdicts.failures:
        missed = nodeset.fold(prepared.verdicts.failures)
        yield NextStep(again, f"once clusterctl can reach {missed}: includes it")
    elif result.needs_reboot:
        yield NextStep(f"{again} --reboot", "allows the reboots that steps need")
    else:
        yield from after_bootstrap(result.verdicts, way)


def _engine(session: Session, run: RunDir, kept: Kept, subjects: frozenset[str] | None) -> Engine:
    from clusterctl import config
    from clusterctl.apply.bootstrap import Engine
    from clusterctl.cli.live_steps import LiveSteps
    from clusterctl.facts.earlier import EarlierFacts

    def gather(inventory: Inventory) -> Any:
        return replace(session, inventory=inventory).gather(subjects=subjects, kept=kept)

    connect: Callable[[Node], Any] = session.connected()
    timeout_s = config.resolve(config.APPLY_TIMEOUT_S).value
    everybody = (*session.inventory.nodes, *session.inventory.beyond)
    earlier = EarlierFacts(run.path.parent, everybody, present=run.id, subjects=subjects)
    return Engine(
        connect, gather, session.fanout, timeout_s,
        earlier=earlier, subjects=subjects, kept=kept, watch=LiveSteps(),
    )  # fmt: skip


def step_part(step: StepOutcome) -> steps.Step:
    """Return one step as a part of documents."""
    from clusterctl.documents import steps
    from clusterctl.documents.kinds import AppliedStatus

    unchanged = step.status is AppliedStatus.UNCHANGED
    return steps.Step(
        requirement=step.requirement,
        description=step.description,
        status=step.status,
        reason=step.reason or ("already in the required state" if unchanged else None),
        notes=step.notes or None,
        round=step.round if step.round > 1 else None,
        undo=step.undo.partition(" ")[2] or None,
    )


def _planned(prepared: Prepared, node: str) -> list[steps.Step]:
    from clusterctl.documents import steps
    from clusterctl.documents.kinds import AppliedStatus

    return [
        steps.Step(requirement=p.requirement, description=p.step.description, status=AppliedStatus.PLANNED)
        for p in prepared.plan.of(node).steps
    ]


def _made(before: Sequence[StepOutcome], outcome: NodeOutcome | None) -> list[steps.Step]:
    """Return a node's steps of earlier parts of the run, then those of this part, each step once."""
    from clusterctl.documents.kinds import AppliedStatus

    done = outcome.steps if outcome is not None else ()
    known = {step.key for step in before}
    new = [s for s in done if s.status is not AppliedStatus.UNCHANGED or s.key not in known]
    again = {step.key for step in new}
    return [step_part(step) for step in (*(s for s in before if s.key not in again), *new)]


def result_of(run: RunDir, prepared: Prepared, result: Result | None) -> steps.Bootstrap:
    """Return the planned and applied steps and the verdicts as a ``clusterctl.bootstrap/1`` document."""
    from clusterctl.documents.steps import Bootstrap, BootstrappedNode, status_of, summary_of
    from clusterctl.report.check_document import error_part, verdict_part
    from clusterctl.requirements.launch_ready import launch_ready
    from clusterctl.transport.base import Failure

    verdicts = prepared.verdicts if result is None else result.verdicts
    before = prepared.before if result is None else result.changed
    nodes: list[BootstrappedNode] = []
    for name, outcome in verdicts.items():
        done = result.outcomes.get(name) if result is not None else None
        shown = _made(before.get(name, ()), done)
        if result is None:
            shown += _planned(prepared, name)
        lost = isinstance(outcome, Failure)
        failure = done.failure if done is not None else None
        failure = outcome if isinstance(outcome, Failure) else failure or prepared.busy.get(name)
        error = None if failure is None else error_part(failure)
        started = done is None or done.started
        nodes.append(
            BootstrappedNode(
                name=name,
                status=status_of(shown, reachable=not lost, error=error, started=started),
                reachable=not lost,
                error=error,
                steps=tuple(shown),
                verdicts=() if isinstance(outcome, Failure) else tuple(verdict_part(v) for v in outcome),
            )
        )
    return Bootstrap(
        run=run.id,
        nodes=tuple(nodes),
        summary=summary_of(nodes),
        ready_to_launch=launch_ready(verdicts.values_by_node, len(verdicts.failures)),
    )
