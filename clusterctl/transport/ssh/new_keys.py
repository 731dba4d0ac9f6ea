"""Find the servers whose host keys no file has, and read these keys before anything else is sent to the servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from clusterctl.errors import ClusterctlError
from clusterctl.inventory.model import Node
from clusterctl.text.openssh.known_hosts import Verdict, host_name
from clusterctl.transport.base import Transport
from clusterctl.transport.fanout import fan_out
from clusterctl.transport.ssh.host_keys import ShownKey
from clusterctl.transport.ssh.session import SshSession
from clusterctl.transport.ssh.target import Target
from clusterctl.transport.ssh.transport import SshTransport


@dataclass(frozen=True, slots=True)
class NewKeys:
    """Servers without a recorded key behind the same number of jump hosts, each with a node that is reached through it.

    Each node is here once, because it has one way.
    """

    session: SshSession
    servers: tuple[tuple[Target, Node], ...]

    def read(self, fanout: int, on_done: Callable[[str], None]) -> list[ShownKey]:
        """Return the keys that can be recorded; a server that presents none, or one that must be refused, has none.

        ``on_done`` is called with each node.
        """
        servers = {node.name: server for server, node in self.servers}

        def read(node: Node, transport: Transport) -> ShownKey | None:
            assert isinstance(transport, SshTransport)
            shown = transport.presented_key(servers[node.name])
            verdict = self.session.policy.judge(shown).verdict
            return shown if verdict is Verdict.UNKNOWN and shown.is_kept else None

        answers = fan_out(
            [node for _, node in self.servers],
            lambda node: SshTransport(self.session, node),
            read,
            fanout=fanout,
            on_done=lambda node, _: on_done(node.name),
        )
        return [shown for shown in answers.values_by_node.values() if shown is not None]


def stages(session: SshSession, nodes: Sequence[Node]) -> Iterator[NewKeys]:
    """Yield the servers without a recorded key: those that are reached directly first, then those behind them.

    A node whose settings or whose known_hosts cannot be read is left out: its connection reports that.
    """
    ways: dict[Target, Node] = {}
    for node in nodes:
        if node.connection == "ssh":
            with suppress(ClusterctlError):
                server: Target | None = session.target(node)
                while server is not None and server not in ways:
                    ways[server] = node
                    server = server.jump
    for depth in sorted({_depth(server) for server in ways}):
        new = tuple(
            (server, node)
            for server, node in ways.items()
            if _depth(server) == depth and not _has_key(session, server)
        )
        if new:
            yield NewKeys(session, new)


def _has_key(session: SshSession, server: Target) -> bool:
    try:
        return bool(session.policy.known(server.known_hosts).key_types(host_name(*server.key_place)))
    except ClusterctlError:
        return True


def _depth(server: Target) -> int:
    return 0 if server.jump is None else 1 + _depth(server.jump)
