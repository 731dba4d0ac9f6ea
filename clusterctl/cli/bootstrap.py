"""The verb ``bootstrap``: make every node what it must be, and report what it then is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli

if TYPE_CHECKING:
    from clusterctl.apply.bootstrap import Engine, Prepared, Result
    from clusterctl.apply.execute import NodeOutcome, StepOutcome
    from clusterctl.cli.session import Session
    from clusterctl.inventory.model import Inventory, Node
    from clusterctl.rundir import RunDir
    from clusterctl.transport.base import Failure

SCHEMA = "clusterctl.bootstrap/1"


def bootstrap(
    inventory: cli.InventoryArgument = None,
    limit: cli.LimitOption = None,
    only: cli.OnlyOption = None,
    skip: cli.SkipOption = None,
    dry_run: cli.DryRunOption = False,
    yes: cli.YesOption = False,
    resume: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--resume", metavar="RUN", help="Continue a run that was cut off, with its inventory."),
    ] = None,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Plan what is missing on every node, ask, apply it, and look again.

    Exit code 0: every requirement met or not applicable; 1: something unmet, unknown or failed, or a node
    unreachable; 5: no node could be reached.
    """
    from clusterctl.apply import bootstrap as engine_of
    from clusterctl.apply.journal import Options
    from clusterctl.cli.session import open_session, say_failures, session_of
    from clusterctl.errors import UsageError
    from clusterctl.plan import fold
    from clusterctl.requirements import judge
    from clusterctl.rundir import RunDir

    wanted, unwanted = cli.names(only), cli.names(skip) or ()
    judge.validate_names(wanted, unwanted)
    if resume is not None:
        if inventory is not None or limit is not None or only is not None or skip is not None:
            raise UsageError(
                "--resume takes the inventory and the requirements of the run it continues",
                hint="leave out INVENTORY, --limit, --only and --skip",
            )
        run = RunDir.open(resume, runs)
        session = session_of(
            engine_of.stored_inventory(run), fanout=fanout, accept_new_host_keys=accept_new_host_keys
        )
        engine = _engine(session)
        prepared = engine_of.prepare_resumed(engine, run)
    else:
        session = open_session(
            inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys
        )
        run = RunDir.create("bootstrap", runs)
        engine = _engine(session)
        prepared = engine_of.prepare(engine, session.inventory, Options(wanted, unwanted), run)

    if not as_json or not yes:
        console.talk(fold.render(prepared.plan))
    say_failures(prepared.verdicts.failures)
    steps = sum(len(node.steps) for node in prepared.plan.nodes)
    result = None
    declined = not dry_run and steps > 0 and not yes and not console.confirm(f"apply {steps} steps?")
    # A run with nodes out of reach is recorded even where nothing else is to be done: it can be resumed.
    if not dry_run and not declined and (steps or prepared.verdicts.failures or resume is not None):
        result = engine_of.apply(engine, prepared, run)
        say_failures({n: o.failure for n, o in result.outcomes.items() if o.failure is not None})
    document = document_of(run, prepared, result)
    run.write("report", document)
    if declined:
        console.talk("nothing was changed")
    if as_json:
        console.emit_json(document)
    elif not declined:
        console.data(_text(document, prepared, result))
    raise typer.Exit(1 if declined else exit_code(document))


def _engine(session: Session) -> Engine:
    from clusterctl import config
    from clusterctl.apply.bootstrap import Engine

    def gather(inventory: Inventory) -> Any:
        return replace(session, inventory=inventory).gather()

    connect: Callable[[Node], Any] = session.connect
    timeout_s = config.resolve(config.APPLY_TIMEOUT_S).value
    return Engine(connect, gather, session.fanout, timeout_s)


def step_document(step: StepOutcome) -> dict[str, Any]:
    """Return one step in the shape of the contract; ``reason`` and ``notes`` only where there are any."""
    from clusterctl.apply.execute import StepStatus

    unchanged = step.status is StepStatus.UNCHANGED
    shown: dict[str, Any] = {
        "requirement": step.requirement,
        "description": step.description,
        "status": "skipped" if unchanged else step.status.value,
    }
    if step.reason or unchanged:
        shown["reason"] = step.reason or "it is so already"
    if step.notes:
        shown["notes"] = list(step.notes)
    return shown


def _error(failure: Failure) -> dict[str, Any]:
    return {"kind": failure.kind.value, "message": failure.message, "hint": failure.hint}


def _planned(prepared: Prepared, node: str) -> list[dict[str, Any]]:
    return [
        {"requirement": p.requirement, "description": p.step.description, "status": "planned"}
        for p in prepared.plan.of(node).steps
    ]


def _made(prepared: Prepared, outcome: NodeOutcome | None, node: str) -> list[dict[str, Any]]:
    """Steps of earlier parts of the run, then of this one; a step found in both is told once."""
    from clusterctl.apply.execute import StepStatus

    steps = {step.key: step for step in prepared.before.get(node, ())}
    for step in outcome.steps if outcome is not None else ():
        if step.status is StepStatus.UNCHANGED and step.key in steps:
            continue
        steps[step.key] = step
    return [step_document(step) for step in steps.values()]


def document_of(run: RunDir, prepared: Prepared, result: Result | None) -> dict[str, Any]:
    """Return what was planned, done and seen as a ``clusterctl.bootstrap/1`` document."""
    from clusterctl.cli.check import verdict_document
    from clusterctl.transport.base import Failure

    verdicts = prepared.verdicts if result is None else result.verdicts
    nodes: list[dict[str, Any]] = []
    summary = {"changed": 0, "failed": 0, "planned": 0, "unreachable": 0}
    for name, outcome in verdicts.items():
        done = result.outcomes.get(name) if result is not None else None
        steps = _made(prepared, done, name)
        if result is None:
            steps += _planned(prepared, name)
        for step in steps:
            if step["status"] in summary:
                summary[step["status"]] += 1
        lost = isinstance(outcome, Failure)
        failure = outcome if isinstance(outcome, Failure) else done.failure if done is not None else None
        summary["unreachable"] += lost
        nodes.append(
            {
                "name": name,
                "reachable": not lost,
                "error": None if failure is None else _error(failure),
                "steps": steps,
                "verdicts": [] if isinstance(outcome, Failure) else [verdict_document(v) for v in outcome],
            }
        )
    return {"schema": SCHEMA, "run": run.id, "nodes": nodes, "summary": summary}


def exit_code(document: dict[str, Any]) -> int:
    """Return 0, 1 or 5 for a ``clusterctl.bootstrap/1`` document."""
    summary = document["summary"]
    if summary["unreachable"] == len(document["nodes"]):
        return 5
    open_ends = any(
        verdict["status"] in ("unmet", "unknown")
        for node in document["nodes"]
        for verdict in node["verdicts"]
    )
    errors = any(node["error"] for node in document["nodes"])
    return 1 if summary["failed"] or errors or open_ends else 0


def _text(document: dict[str, Any], prepared: Prepared, result: Result | None) -> str:
    from clusterctl.cli.check import folded

    lines = [folded(prepared.verdicts if result is None else result.verdicts), ""]
    for node in document["nodes"]:
        for step in node["steps"]:
            if step["status"] == "failed" or step.get("notes"):
                said = "; ".join([*step.get("notes", ()), *([step["reason"]] if "reason" in step else [])])
                lines.append(f"{node['name']}: {step['requirement']}: {step['description']}: {said}")
    summary = ", ".join(f"{word}: {count}" for word, count in document["summary"].items())
    lines += [f"run: {document['run']}", summary]
    return "\n".join(lines)
