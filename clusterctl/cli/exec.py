"""``exec``: run one command in all containers; equal output is printed once."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.cli.down import RunOption

if TYPE_CHECKING:
    from clusterctl.documents.containers import Answer
    from clusterctl.transport.base import Completed, Failure


def execute(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The command and its arguments, after --.")
    ],
    *,
    limit: cli.LimitOption = None,
    run_name: RunOption = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1.0, metavar="SECONDS", help="Maximum time of the command.")
    ] = 600.0,
    fanout: cli.FanoutOption = None,
    runs: cli.RunsOption = None,
    as_json: cli.JsonOption = False,
) -> None:
    """Run a command in the containers that 'up' started.

    The command runs without a shell; for shell syntax, use sh -c '...'.

    Exit code 0: the command returned 0 in all containers; 1: in some it did not; 5: a container is unreachable.
    """
    from clusterctl.cli.containers_session import containers_session
    from clusterctl.cli.session import say_failures
    from clusterctl.documents.containers import Exec
    from clusterctl.inventory.model import Node
    from clusterctl.transport.base import Transport
    from clusterctl.transport.fanout import fan_out

    cli.require_seconds(timeout_s)
    session = containers_session(run_name, runs, limit=limit, fanout=fanout)

    def work(_: Node, transport: Transport) -> Completed:
        return transport.run(tuple(command), timeout_s=timeout_s)

    outcome = fan_out(session.inventory.nodes, session.connect, work, fanout=session.fanout)
    if as_json:
        console.emit_json(
            Exec(
                command=shlex.join(command),
                nodes=tuple(_answer(name, answer) for name, answer in outcome.items()),
            ).document()
        )
    else:
        _say(outcome)
    say_failures(outcome.failures)
    status = any(done.returncode for done in outcome.values_by_node.values())
    raise typer.Exit(5 if outcome.failures else 1 if status else 0)


def _answer(name: str, answer: Completed | Failure) -> Answer:
    from clusterctl.documents.containers import Answer
    from clusterctl.transport.base import Failure

    if isinstance(answer, Failure):
        return Answer(name=name, error=answer.message)
    return Answer(name=name, status=answer.returncode, stdout=answer.text, stderr=answer.error_text)


def _say(outcome: Mapping[str, Completed | Failure]) -> None:
    from clusterctl.transport.base import Failure

    for names, done in folded({n: a for n, a in outcome.items() if not isinstance(a, Failure)}):
        ended = f", status {done.returncode}" if done.returncode else ""
        console.data(f"--- {names}{ended}")
        if done.text:
            console.data(done.text)
        if done.error_text:
            console.error(done.error_text.rstrip("\n"))


def folded(answers: Mapping[str, Completed]) -> list[tuple[str, Completed]]:
    """Return each distinct answer once, with the folded names of its containers."""
    from clusterctl.inventory import nodeset

    alike: dict[tuple[int, bytes, bytes], list[str]] = {}
    for name, done in answers.items():
        alike.setdefault((done.returncode, done.stdout, done.stderr), []).append(name)
    return [
        (nodeset.fold(names) + (f" ({len(names)})" if len(names) > 1 else ""), answers[names[0]])
        for names in alike.values()
    ]
