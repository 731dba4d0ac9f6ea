"""``check``: compare the state of each node with its requirements, without changes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from clusterctl.cli import console, report_files
from clusterctl.cli import options as cli
from clusterctl.report.check_document import exit_code

if TYPE_CHECKING:
    from clusterctl.cli.check.run import Judged
    from clusterctl.requirements.base import Decision
    from clusterctl.transport.base import HostMap


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
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Also exit with 1 for drift (a node that differs from most of its kind)."
        ),
    ] = False,
    record: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--record",
            metavar="DIR",
            help="Record the raw output of each node, without secrets; also as DIR.tar.gz.",
        ),
    ] = None,
    replay: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--replay", metavar="DIR", help="Check a recording instead of nodes; contacts no node."),
    ] = None,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Check every node against every requirement; change nothing.

    Exit code 0: all requirements met or not applicable; 1: a requirement unmet or unknown, a node unreachable, or
    drift with --strict; 5: all nodes unreachable.
    """
    from clusterctl.cli.check.run import Contact, replayed
    from clusterctl.cli.session import say_failures, say_without_root
    from clusterctl.errors import UsageError

    wanted, unwanted = cli.names(only), cli.names(skip)
    if wanted is not None or unwanted:
        from clusterctl.requirements import judge

        judge.validate_names(wanted, unwanted or ())
    report_files.refuse_unwritable(junit, prometheus)
    if replay is not None:
        if inventory is not None or record is not None:
            raise UsageError(
                "--replay uses the inventory and the answers of the recording",
                hint="leave out INVENTORY and --record",
            )
        judged = replayed(replay, limit, wanted, unwanted)
    else:
        contact = Contact(inventory, limit, fanout, accept_new_host_keys, runs)
        judged = contact.check(wanted, unwanted or (), record)
    _report(judged, junit, prometheus, strict=strict)
    if as_json:
        console.emit_json(judged.document)
    else:
        console.data(_text(judged))
    say_failures(judged.verdicts.failures)
    say_without_root(judged.facts, judged.verdicts)
    code = exit_code(judged.document, len(judged.verdicts))
    raise typer.Exit(1 if strict and judged.deviations and code == 0 else code)


def _report(judged: Judged, junit: Path | None, prometheus: Path | None, *, strict: bool) -> None:
    if junit is not None:
        from clusterctl.report import junit as junit_report

        report_files.write(junit, junit_report.render(judged.document, strict=strict))
    if prometheus is not None:
        from clusterctl.report import prometheus as prometheus_report

        report_files.write(prometheus, prometheus_report.render(judged.document, checked_at_s=time.time()))


def _text(judged: Judged) -> str:
    from clusterctl.report.text.check import drift_text

    blocks = [folded(judged.verdicts, console.width())]
    drifting = drift_text(judged.deviations, judged.verdicts.values_by_node)
    summary = judged.document["summary"]
    counts = ", ".join(f"{word.replace('_', '-')}: {count}" for word, count in summary.items())
    return "\n\n".join([*blocks, *([drifting] if drifting else []), counts])


def folded(verdicts: HostMap[tuple[Decision, ...]], width: int | None = None) -> str:
    """Return the verdicts as a table for people; nodes with the same verdict share a row."""
    from clusterctl.report.text import check as check_table

    return check_table.folded(verdicts, width)
