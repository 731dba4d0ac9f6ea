"""Watch the nodes of a launch: a node that loses power closes no connection, and its peers may wait for minutes.

Open MPI's keepalive does not help if data was already sent to the dead node: then TCP only retransmits, for about 15
minutes (tcp(7), tcp_retries2).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from clusterctl.errors import ClusterctlError
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Transport

BEAT_S = 5.0
SILENCE_S = 60.0
PAUSES_S = (1.0, 4.0)
"""Pauses before each retry after a connection broke: a busy sshd drops logins at random (MaxStartups)."""


class Watch:
    """Hold one connection per followed node, and ask for a sign of life every few seconds.

    The connections also serve commands (``held``), so that these need no login.
    """

    def __init__(self, connect: Callable[[Node], Transport]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._lost: dict[str, str] = {}
        self._held: dict[str, Transport] = {}
        self._over = threading.Event()

    def follow(self, nodes: Sequence[Node]) -> None:
        """Watch these nodes, too, except this machine; a node that was lost counts as found."""
        with self._lock:
            new = [
                n
                for n in nodes
                if n.connection != "local" and (n.name in self._lost or n.name not in self._held)
            ]
        for node in new:
            transport = self._connect(node)
            with self._lock:
                self._lost.pop(node.name, None)
                self._held[node.name] = transport
            work = (node, transport)
            threading.Thread(target=self._keep, args=work, name=f"watch-{node.name}", daemon=True).start()

    def held(self, name: str) -> Transport | None:
        """Return the open connection of a node, which one thread at a time may use for commands; None without one."""
        with self._lock:
            transport = self._held.get(name)
        return transport if transport is not None and transport.is_open else None

    def lost(self) -> dict[str, str]:
        """Return the lost nodes, and the sign by which each was detected."""
        with self._lock:
            return dict(self._lost)

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        with self._lock:
            self._over.set()
            held = list(self._held.values())
        for transport in held:
            transport.close()

    def _keep(self, node: Node, transport: Transport) -> None:
        """Hold the connection and restore it if it breaks, because the node may still be up."""
        failures = 0
        while True:
            silent = False
            try:
                transport.open()
                while not silent and not self._over.wait(BEAT_S):
                    silent = not transport.answers(SILENCE_S)
                    failures = 0
                reason = f"no heartbeat for {SILENCE_S:.0f} s"
            except ClusterctlError as error:
                reason = error.message
            transport.close()
            failures += 1
            if silent or failures > len(PAUSES_S):
                with self._lock:
                    self._lost[node.name] = reason
                return
            if self._over.wait(PAUSES_S[failures - 1]):
                return
            transport = self._connect(node)
            with self._lock:
                self._held[node.name] = transport
            if self._over.is_set():
                transport.close()
                return
