"""``check``: compare the state of each node with its requirements, without changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
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
    every: Annotated[
        bool, typer.Option("--all", help="Also list the requirements that are met or not applicable.")
    ] = False,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Check every node against every requirement; change nothing.

    The table lists what is unmet or unknown. Requirements that are met or not applicable are only named.

    Exit code 0: all requirements met or not applicable; 1: a requirement unmet or unknown, a node unreachable, or
    drift with --strict; 5: all nodes unreachable.
    """
    from clusterctl.cli.check.run import Contact, replayed
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
        from clusterctl.cli.session import say_failures, say_without_root

        console.emit_json(judged.document)
        say_failures(judged.verdicts.failures)
        say_without_root(judged.facts, judged.verdicts)
    else:
        # A recording may be of nodes that this machine cannot reach.
        again = None if replay is not None else _bootstrap_command(inventory, limit, only, skip)
        console.data(_text(judged, again, every=every), look="check")
    code = exit_code(judged.document, len(judged.verdicts))
    raise typer.Exit(1 if strict and judged.deviations and code == 0 else code)


def _report(judged: Judged, junit: Path | None, prometheus: Path | None, *, strict: bool) -> None:
    if junit is not None:
        from clusterctl.report import junit as junit_report

        report_files.write(junit, junit_report.render(judged.document, strict=strict))
    if prometheus is not None:
        from clusterctl.report import prometheus as prometheus_report

        report_files.write(prometheus, prometheus_report.render(judged.document, checked_at_s=time.time()))


def _bootstrap_command(
    inventory: Path | None,
    limit: Sequence[str] | None,
    only: Sequence[str] | None,
    skip: Sequence[str] | None,
) -> tuple[str, ...]:
    """Return the bootstrap command for the same nodes and requirements as this check."""
    words = ["clusterctl", "bootstrap", *(() if inventory is None else (str(inventory),))]
    for flag, values in (("--limit", limit), ("--only", only), ("--skip", skip)):
        words += [word for value in values or () for word in (flag, value)]
    return tuple(words)


def _text(judged: Judged, bootstrap: tuple[str, ...] | None, *, every: bool) -> str:
    from clusterctl.report.text import check as check_table
    from clusterctl.report.text.failures import rootless_lines
    from clusterctl.report.text.next_step import next_lines

    width, answered = console.width(), judged.verdicts.values_by_node
    summary = check_table.summary_line(judged.document["summary"], len(judged.verdicts))
    last = [*check_table.wrapped(summary, width), *next_lines(answered.values(), bootstrap, width)]
    blocks = (
        check_table.folded(judged.verdicts, width, every=every),
        "\n".join(rootless_lines(judged.facts.values_by_node, answered)),
        check_table.drift_text(judged.deviations, answered, width),
        "\n".join(last),
    )
    return "\n\n".join(block for block in blocks if block)


def folded(verdicts: HostMap[tuple[Decision, ...]], width: int | None = None) -> str:
    """Return the verdicts as a table for people; nodes with the same verdict share a row."""
    from clusterctl.report.text import check as check_table

    return check_table.folded(verdicts, width, reasons=False)
