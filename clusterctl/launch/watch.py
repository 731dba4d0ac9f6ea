"""Watch the nodes of a launch: a node that loses power closes no connection, and its peers may wait for minutes.

Open MPI's keepalive does not help if data was already sent to the dead node: then TCP only retransmits, for about 15
minutes (tcp(7), tcp_retries2).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from clusterctl.errors import ClusterctlError
from clusterctl.inventory.model import Node
from clusterctl.launch.base import TOKEN_VARIABLE
from clusterctl.transport.base import Transport

BEAT_S = 5
SILENCE_S = 60.0
PAUSES_S = (1.0, 4.0)
"""Pauses before each retry after a connection broke: a busy sshd drops logins at random (MaxStartups)."""
# Ends by itself once the connection is closed, because echo then fails.
_BEAT = f"while sleep {BEAT_S}; do echo beat || exit; done"


class Watch:
    """Hold one connection per node that carries a heartbeat every few seconds; a context manager."""

    def __init__(self, nodes: Sequence[Node], connect: Callable[[Node], Transport], token: str) -> None:
        self._nodes = tuple(node for node in nodes if node.connection != "local")
        self._connect = connect
        self._command = ("env", f"{TOKEN_VARIABLE}={token}", "sh", "-c", _BEAT)
        self._lock = threading.Lock()
        self._seen: dict[str, float] = {}
        self._lost: dict[str, str] = {}
        self._open: dict[str, Transport] = {}
        self._over = threading.Event()

    def __enter__(self) -> Watch:
        for node in self._nodes:
            threading.Thread(target=self._keep, args=(node,), name=f"watch-{node.name}", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._over.set()
            held = list(self._open.values())
        for transport in held:
            transport.close()

    def lost(self) -> dict[str, str]:
        """Return the lost nodes, and the sign by which each was detected."""
        now = time.monotonic()
        with self._lock:
            silent = {
                name: f"no heartbeat for {SILENCE_S:.0f} s"
                for name, at in self._seen.items()
                if now - at > SILENCE_S
            }
            return {**silent, **self._lost}

    def _beat(self, name: str) -> None:
        with self._lock:
            self._seen[name] = time.monotonic()

    def _keep(self, node: Node) -> None:
        """Hold the connection and restore it if it breaks, because the node may still be up."""
        failures = 0
        while True:
            transport = self._connect(node)
            with self._lock:
                if self._over.is_set():
                    return
                self._open[node.name] = transport
            try:
                transport.run(self._command, on_line=lambda _: self._beat(node.name))
                reason = "the heartbeat command ended"
            except ClusterctlError as error:
                reason = error.message
            finally:
                transport.close()
            with self._lock:
                heard = self._seen.pop(node.name, None) is not None
                failures = 1 if heard else failures + 1
                if failures > len(PAUSES_S):
                    self._lost[node.name] = reason
            if failures > len(PAUSES_S) or self._over.wait(PAUSES_S[failures - 1]):
                return
