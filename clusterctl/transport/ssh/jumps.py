"""Share one connection per jump host: the first node behind it opens the connection, the last one closes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from clusterctl.transport.base import Failure, FailureKind, TransportError
from clusterctl.transport.ssh.target import Target

C = TypeVar("C")
_SHARED_FAILURE_S = 1.0
"""Seconds for which a failure is reported to all nodes; afterwards the next node tries the jump host again."""
_NO_SUCH_JUMP = "fix 'proxy_jump' in the inventory, or ProxyJump in ssh_config"


class _Shared(Generic[C]):
    def __init__(self) -> None:
        self.users = 0
        self.opening = threading.Lock()
        self.connection: C | None = None
        self.failure: Failure | None = None
        self.failed_at = 0.0


class Jumps(Generic[C]):
    """Shared connections by jump host. ``opener`` connects, ``ender`` closes, ``alive`` checks a connection."""

    def __init__(
        self, opener: Callable[[Target], C], ender: Callable[[C], None], alive: Callable[[C], bool]
    ) -> None:
        self._opener = opener
        self._ender = ender
        self._alive = alive
        self._lock = threading.Lock()
        self._shared: dict[Target, _Shared[C]] = {}

    def acquire(self, target: Target, jump: Target) -> C:
        """Return the connection to ``jump`` for ``target``; every success needs a ``release``.

        Raises TransportError if the jump host cannot be used; all nodes that wait for it fail with the same reason.
        """
        with self._lock:
            shared = self._shared.setdefault(jump, _Shared())
            shared.users += 1
        try:
            with shared.opening:
                if shared.connection is not None and not self._alive(shared.connection):
                    # Nodes behind a dead connection are lost. Close it here, because a large fleet always has others
                    # waiting, so that the count of users never reaches zero.
                    self._ender(shared.connection)
                    shared.connection = None
                fresh = time.monotonic() - shared.failed_at < _SHARED_FAILURE_S
                if shared.connection is None and not (shared.failure and fresh):
                    try:
                        shared.connection, shared.failure = self._opener(jump), None
                    except TransportError as error:
                        shared.failure, shared.failed_at = error.failure, time.monotonic()
                failure, connection = shared.failure, shared.connection
            if failure is not None:
                # With a DNS error, the wrong name is the jump host's and not the node's.
                hint = _NO_SUCH_JUMP if failure.kind is FailureKind.DNS else failure.hint
                raise TransportError(
                    Failure(failure.kind, f"{target.where}: through {failure.message}", hint)
                )
            assert connection is not None
        except BaseException:
            self.release(jump)
            raise
        return connection

    def release(self, jump: Target) -> None:
        """Release the connection for one node; the last release closes it."""
        with self._lock:
            shared = self._shared.get(jump)
            if shared is None:
                return
            shared.users -= 1
            if shared.users > 0:
                return
            del self._shared[jump]
        if shared.connection is not None:
            self._ender(shared.connection)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            held, self._shared = list(self._shared.values()), {}
        for shared in held:
            if shared.connection is not None:
                self._ender(shared.connection)
