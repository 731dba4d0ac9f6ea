"""How ``prove`` and ``show`` ask all nodes, and end if none has answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from clusterctl.cli.terminal import interrupt

if TYPE_CHECKING:
    from clusterctl.cli.session import Session
    from clusterctl.inventory.model import Node
    from clusterctl.transport.base import HostMap, Transport

_Answer = TypeVar("_Answer")


def ask(
    session: Session, work: Callable[[Node, Transport], _Answer], doing: str, asked: str
) -> HostMap[_Answer]:
    """Return what ``work`` returns for each node; ``doing`` and ``asked`` begin the line of the progress."""
    from clusterctl.cli.terminal.progress import Progress, share
    from clusterctl.transport.fanout import fan_out

    nodes = session.inventory.nodes
    with interrupt.changes_nothing(), Progress(doing, len(nodes), "nodes") as progress:
        answers = fan_out(
            nodes,
            session.connected(),
            work,
            fanout=session.fanout,
            on_start=lambda node: progress.start(node.name),
            on_done=lambda node, _: progress.advance(node.name),
        )
        progress.done = f"{asked} {share(len(answers.values_by_node), len(nodes), 'node')}"
    return answers


def require_an_answer(answers: HostMap[_Answer]) -> None:
    """End with exit code 9 if no node has answered and one could be reached, with 5 if none could."""
    from clusterctl.errors import ImageError, NodeConnectionError
    from clusterctl.transport.base import FailureKind

    if answers.values_by_node:
        return
    # A node is reachable if only its docker engine does not answer.
    reached = any(failure.kind is FailureKind.ERROR for failure in answers.failures.values())
    raise typer.Exit(ImageError.exit_code if reached else NodeConnectionError.exit_code)
