"""Run one command on many nodes and report what each of them answered: ``run``, and ``exec`` for containers."""

from __future__ import annotations

import secrets
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli.terminal import interrupt
from clusterctl.errors import UsageError
from clusterctl.inventory import nodeset

if TYPE_CHECKING:
    from clusterctl.cli.session import Session
    from clusterctl.documents import command as documents
    from clusterctl.inventory.model import Node
    from clusterctl.transport.base import Completed, Failure, Transport

_MARK = "CLUSTERCTL_COMMAND"
_GRACE_S = 2.0
_END_TIMEOUT_S = 15.0
MOST_BYTES = 256 << 10
"""The output that is kept of each stream of a node: a thousand nodes may all write without end."""

CommandArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="-- COMMAND...",
        help="A program and its arguments; a single word with spaces or shell syntax runs with sh -c.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", min=1.0, metavar="SECONDS", help="End the command on a node after this time."),
]
StreamOption = Annotated[
    bool,
    typer.Option("--stream", help="Print each line of output as it arrives, behind the name of its node."),
]
MaxOutputOption = Annotated[
    int,
    typer.Option(
        "--max-output",
        min=1,
        metavar="KIB",
        help="Keep this many KiB of each stream of a node; cut the rest.",
    ),
]


@dataclass(frozen=True, slots=True)
class Work:
    """Hold a command and how it runs on each node."""

    words: tuple[str, ...]
    timeout_s: float
    as_root: bool = False
    stream: bool = False
    keep_bytes: int = MOST_BYTES

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the program; a single word that no program is named is a line for the shell."""
        (first, *others) = self.words
        return self.words if others or shlex.quote(first) == first else ("sh", "-c", first)


def refuse_both(*, stream: bool, as_json: bool) -> None:
    """Raise UsageError for --stream with --json: a document is complete or not there."""
    if stream and as_json:
        raise UsageError("--stream and --json cannot be combined", hint="leave one of them out")


def carry_out(
    session: Session, work: Work, kind: type[documents.Run | documents.Exec], *, as_json: bool
) -> int:
    """Run the command on every node of the session, report, and return the exit code."""
    from clusterctl.cli.session import say_failures
    from clusterctl.cli.terminal.progress import Progress
    from clusterctl.report.text import answers as text
    from clusterctl.transport.base import Failure
    from clusterctl.transport.fanout import fan_out

    nodes = session.inventory.nodes
    progress = Progress("Running the command", len(nodes), "nodes")
    writing = threading.Lock()
    ended: dict[str, Completed | Failure] = {}
    mark = secrets.token_hex(8)
    used: dict[str, Transport] = {}
    reached: list[Node] = []

    def on(node: Node, transport: Transport) -> Completed:
        used[node.name] = transport

        def line(said: str) -> None:
            with writing:
                console.data(text.streamed(node.name, said))
                sys.stdout.flush()

        return transport.run(
            work.argv,
            timeout_s=work.timeout_s,
            as_root=work.as_root,
            env={_MARK: mark},
            on_line=line if work.stream else None,
            keep_bytes=work.keep_bytes,
        )

    def done(node: Node, outcome: Completed | Failure) -> None:
        ended[node.name] = outcome
        progress.advance(node.name)

    def cancelled() -> None:
        reached.extend(n for n in nodes if n.name in used and n.name not in ended and used[n.name].is_open)

    try:
        with progress:
            fan_out(
                nodes, session.connected(), on,
                fanout=session.fanout, on_start=lambda node: progress.start(node.name), on_done=done,
                on_cancel=cancelled,
            )  # fmt: skip
    except KeyboardInterrupt:
        if not as_json:
            _say(_in_order(ended, nodes), stream=work.stream)
        _end(session, work, mark, reached)
        raise
    outcomes = _in_order(ended, nodes)
    if as_json:
        parts = tuple(answer(name, outcome) for name, outcome in outcomes.items())
        console.emit_json(kind(command=shlex.join(work.words), nodes=parts).document())
    else:
        _say(outcomes, stream=work.stream)
    say_failures({name: one for name, one in outcomes.items() if isinstance(one, Failure)})
    return exit_code(outcomes)


def _end(session: Session, work: Work, mark: str, reached: Sequence[Node]) -> None:
    """End the interrupted command on the nodes that were running it, and report where it may still run."""
    from clusterctl.launch import processes
    from clusterctl.transport.fanout import fan_out

    left = {node.name for node in reached}

    def end(node: Node, transport: Transport) -> bool:
        script = processes.end_command_script(mark, _GRACE_S)
        done = transport.run(("sh", "-s"), stdin=script, timeout_s=_END_TIMEOUT_S, as_root=work.as_root)
        return done.text.split() == ["left"]

    def note(node: Node, outcome: bool | Failure) -> None:
        if outcome is True:
            left.remove(node.name)

    try:
        fan_out(reached, session.connected(), end, fanout=session.fanout, on_done=note)
    finally:
        names = [node.name for node in reached]
        if over := [name for name in names if name not in left]:
            interrupt.tell(f"The command was ended on {nodeset.fold_counted(over)}.")
        if left:
            still = nodeset.fold_counted([name for name in names if name in left])
            interrupt.tell(f"The command may run on {still} until its timeout of {work.timeout_s:g} s.")


def _in_order(
    ended: Mapping[str, Completed | Failure], nodes: Sequence[Node]
) -> dict[str, Completed | Failure]:
    return {node.name: ended[node.name] for node in nodes if node.name in ended}


def exit_code(outcomes: Mapping[str, Completed | Failure]) -> int:
    """Return 0 if the command returned 0 everywhere, 5 if no node could be reached, else 1."""
    from clusterctl.transport.base import Failure

    if all(isinstance(one, Failure) and not one.kind.answered for one in outcomes.values()):
        return 5
    return int(any(isinstance(one, Failure) or one.returncode for one in outcomes.values()))


def answer(name: str, outcome: Completed | Failure) -> documents.Answer:
    """Return what one node answered as a part of documents."""
    from clusterctl.documents.command import Answer, CutBytes
    from clusterctl.transport.base import Failure

    if isinstance(outcome, Failure):
        return Answer(name=name, error=outcome.message, kind=outcome.kind)
    cut = outcome.stdout_cut or outcome.stderr_cut
    return Answer(
        name=name,
        status=outcome.returncode,
        stdout=outcome.text,
        stderr=outcome.error_text,
        cut=CutBytes(stdout=outcome.stdout_cut, stderr=outcome.stderr_cut) if cut else None,
    )


def _say(outcomes: Mapping[str, Completed | Failure], *, stream: bool) -> None:
    from clusterctl.report.text import answers as text
    from clusterctl.transport.base import Failure

    answers = {name: one for name, one in outcomes.items() if not isinstance(one, Failure)}
    if answers and not stream:
        console.data(text.output(answers))
    cut = [name for name, one in answers.items() if one.stdout_cut] if stream else []
    for said in (text.errors(answers), text.statuses(answers)):
        if said:
            console.error(said)
    if cut:
        console.talk(f"the output of {nodeset.fold_counted(cut)} was cut; --max-output allows more")
