"""Keep connections open after a fan-out, so that the next one on the same nodes needs no new login."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from clusterctl.inventory.model import Node
from clusterctl.transport.base import Transport

_FRESH_S = 60.0


class Kept:
    """Up to ``limit`` idle connections, one per node; thread-safe.

    A login costs a node more than most commands: it exchanges keys and starts three processes. A connection idle for
    longer than a minute is not reused, because a suspended laptop or a firewall may have dropped it, and detecting
    that takes longer than a login.
    """

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._idle: dict[str, tuple[Transport, float]] = {}

    def over(self, connect: Callable[[Node], Transport]) -> Callable[[Node], Transport]:
        """Return a ``connect`` for ``fan_out`` that reuses kept connections and opens the others with ``connect``."""

        def take_or_connect(node: Node) -> Transport:
            with self._lock:
                transport, since = self._idle.pop(node.name, (None, 0.0))
            if transport is None:
                return connect(node)
            # Wall time advances while a laptop is suspended; the monotonic clock does not.
            if transport.is_open and 0 <= time.time() - since <= _FRESH_S:
                return transport
            transport.close()
            return connect(node)

        return take_or_connect

    def release(self, transport: Transport) -> None:
        """Keep a connection for reuse; close it if it is no longer open or ``limit`` connections are kept already."""
        if self._limit and transport.is_open:
            with self._lock:
                if len(self._idle) < self._limit and transport.node not in self._idle:
                    self._idle[transport.node] = (transport, time.time())
                    return
        transport.close()

    def drop(self) -> None:
        """Close all kept connections."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for transport, _ in idle.values():
            transport.close()

    def __enter__(self) -> Kept:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()
