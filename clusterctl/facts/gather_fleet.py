"""Gather the facts of many nodes at once. The parsers are imported only after the first logins have started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure, HostMap, Transport, TransportError
from clusterctl.transport.fanout import fan_out

if TYPE_CHECKING:
    from clusterctl.facts.gather import Heard, OnAnswers
    from clusterctl.facts.model.node import NodeFacts


def gather_fleet(
    nodes: Sequence[Node],
    connect: Callable[[Node], Transport],
    *,
    fanout: int,
    timeout_s: float,
    escalate: bool = False,
    on_answers: OnAnswers | None = None,
    on_start: Callable[[Node], None] | None = None,
    on_done: Callable[[Node, object], None] | None = None,
    subjects: frozenset[str] | None = None,
    release: Callable[[Transport], None] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> HostMap[NodeFacts]:
    """Gather the facts of many nodes, each over one connection; arguments as in ``gather.gather`` and ``fan_out``.

    The caller's thread parses the answers while other nodes still answer. The threads of the connections never wait
    for a parser, and parsers never compete with each other.
    """
    found: dict[str, NodeFacts | Failure] = {}

    def work(node: Node, transport: Transport) -> Heard:
        # The login on the node takes about as long as importing the parsers, which also build the probe's script.
        transport.open()
        from clusterctl.facts.gather import hear

        return hear(transport, node, timeout_s, escalate=escalate, on_answers=on_answers, subjects=subjects)

    def done(node: Node, outcome: Heard | Failure) -> None:
        try:
            found[node.name] = outcome if isinstance(outcome, Failure) else outcome.understood()
        except TransportError as error:
            found[node.name] = error.failure
        if on_done is not None:
            on_done(node, found[node.name])

    fan_out(
        nodes, connect, work,
        fanout=fanout, on_start=on_start, on_done=done, release=release, meanwhile=meanwhile,
    )  # fmt: skip
    return HostMap({node.name: found[node.name] for node in nodes})
