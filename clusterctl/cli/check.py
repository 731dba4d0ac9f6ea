"""The verb ``check``: what every node is, held against what it must be; changes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli

if TYPE_CHECKING:
    from clusterctl.requirements.base import Verdict
    from clusterctl.transport.base import HostMap

SCHEMA = "clusterctl.check/1"


def check(
    inventory: cli.InventoryArgument = None,
    limit: cli.LimitOption = None,
    only: cli.OnlyOption = None,
    skip: cli.SkipOption = None,
    junit: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--junit", metavar="FILE", help="Also write the verdicts as JUnit XML."),
    ] = None,
    prometheus: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--prometheus", metavar="FILE", help="Also write a Prometheus textfile."),
    ] = None,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Check every node against every requirement; change nothing.

    Exit code 0: everything met or not applicable; 1: something unmet or unknown, or a node unreachable;
    5: no node could be reached.
    """
    from clusterctl.cli.session import open_session, say_failures
    from clusterctl.facts import document
    from clusterctl.inventory.secret_names import recorded
    from clusterctl.report import junit as junit_report
    from clusterctl.report import prometheus as prometheus_report
    from clusterctl.requirements import judge
    from clusterctl.rundir import RunDir

    wanted, unwanted = cli.names(only), cli.names(skip) or ()
    judge.validate_names(wanted, unwanted)
    for path in (junit, prometheus):
        _refuse_unwritable(path)
    session = open_session(inventory, limit=limit, fanout=fanout, accept_new_host_keys=accept_new_host_keys)
    run = RunDir.create("check", runs)
    run.write("inventory", recorded(session.inventory))
    facts = session.gather()
    run.write("facts", document.fleet_to_document(facts))
    verdicts = facts.map(
        lambda name, found: judge.judge_node(found, session.inventory.node(name), wanted, unwanted)
    )
    result = document_of(verdicts)
    run.write("report", result)
    if junit is not None:
        _write(junit, junit_report.render(result))
    if prometheus is not None:
        _write(prometheus, prometheus_report.render(result))
    if as_json:
        console.emit_json(result)
    else:
        console.data(folded(verdicts))
    say_failures(verdicts.failures)
    raise typer.Exit(exit_code(result, len(verdicts)))


def _refuse_unwritable(path: Path | None) -> None:
    """Raise ConfigError, before any node is contacted, for a report file whose folder cannot take it."""
    from clusterctl.errors import ConfigError

    if path is not None and not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"cannot write {path}: no such folder, or not ours to write", hint="make the folder first"
        )


def _write(path: Path, text: str) -> None:
    from clusterctl.errors import ConfigError
    from clusterctl.rundir import write_atomically

    try:
        # A Prometheus collector may read at any moment, and as another user.
        write_atomically(path, text.encode(), mode=0o644)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def exit_code(result: dict[str, Any], nodes: int) -> int:
    """Return 0, 1 or 5 for a ``clusterctl.check/1`` document."""
    summary = result["summary"]
    if summary["unreachable"] == nodes:
        return 5
    return 1 if summary["unmet"] or summary["unknown"] or summary["unreachable"] else 0


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return one verdict in the shape of the contract."""
    shown: dict[str, Any] = {
        "requirement": verdict.requirement,
        "status": verdict.status.value,
        "reason": verdict.reason,
        "evidence": dict(verdict.evidence),
    }
    if verdict.warnings:
        shown["warnings"] = list(verdict.warnings)
    return shown


def document_of(verdicts: HostMap[tuple[Verdict, ...]]) -> dict[str, Any]:
    """Return the verdicts of all nodes as a ``clusterctl.check/1`` document."""
    from clusterctl.transport.base import Failure

    nodes: list[dict[str, Any]] = []
    summary = {"met": 0, "unmet": 0, "unknown": 0, "not_applicable": 0, "unreachable": 0}
    for name, outcome in verdicts.items():
        if isinstance(outcome, Failure):
            summary["unreachable"] += 1
            error = {"kind": outcome.kind.value, "message": outcome.message, "hint": outcome.hint}
            nodes.append({"name": name, "reachable": False, "error": error, "verdicts": []})
            continue
        for verdict in outcome:
            summary[verdict.status.value.replace("-", "_")] += 1
        shown = [verdict_document(verdict) for verdict in outcome]
        nodes.append({"name": name, "reachable": True, "error": None, "verdicts": shown})
    return {"schema": SCHEMA, "nodes": nodes, "summary": summary}


def folded(verdicts: HostMap[tuple[Verdict, ...]]) -> str:
    """Return one table per set of nodes whose verdicts read alike, in inventory order."""
    from clusterctl.inventory import nodeset

    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name, outcome in verdicts.values_by_node.items():
        rows = tuple((v.requirement, v.status.value, v.reason, *v.warnings) for v in outcome)
        alike.setdefault(rows, []).append(name)
    blocks = []
    for rows, names in alike.items():
        table = console.table(["requirement", "status", "reason"], [row[:3] for row in rows])
        warnings = [f"warning: {row[0]}: {text}" for row in rows for text in row[3:]]
        count = f" ({len(names)} nodes)" if len(names) > 1 else ""
        blocks.append("\n".join([f"{nodeset.fold(names)}{count}", table, *warnings]))
    if verdicts.failures:
        blocks.append(f"unreachable: {nodeset.fold(list(verdicts.failures))}")
    return "\n\n".join(blocks)
