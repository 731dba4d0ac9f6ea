"""Work on many nodes concurrently with a bounded pool of threads; a node's failure is a value in the result."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from clusterctl.errors import ClusterctlError, ControllerFileError
from clusterctl.inventory.model import Node
from clusterctl.transport.base import Failure, FailureKind, HostMap, Transport, TransportError

T = TypeVar("T")
_CANCEL_TIMEOUT_S = 3.0
_NOTICE_S = 0.5


@dataclass(frozen=True, slots=True)
class _Crash:
    """An exception that is not the failure of a node; it ends the whole run."""

    error: BaseException


class _Pool(Generic[T]):
    """The threads of one fan-out, and the transports they hold."""

    def __init__(
        self,
        connect: Callable[[Node], Transport],
        work: Callable[[Node, Transport], T],
        nodes: Sequence[Node],
        release: Callable[[Transport], None] | None,
        on_start: Callable[[Node], None] | None,
    ) -> None:
        self._on_start = on_start
        self._release = release
        self._connect = connect
        self._work = work
        self._todo: queue.SimpleQueue[Node] = queue.SimpleQueue()
        for node in nodes:
            self._todo.put(node)
        self._lock = threading.Lock()
        self._open: set[Transport] = set()
        self._cancelled = False
        self.outcomes: queue.SimpleQueue[tuple[Node, T | Failure | _Crash]] = queue.SimpleQueue()

    def run(self) -> None:
        """Process nodes until none is left: the body of every thread."""
        while True:
            try:
                node = self._todo.get_nowait()
            except queue.Empty:
                return
            if self._on_start is not None:
                self._on_start(node)
            try:
                outcome = self._one(node)
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, which raises it
                outcome = _Crash(error)
            self.outcomes.put((node, outcome))

    def _one(self, node: Node) -> T | Failure | _Crash:
        try:
            transport = self._connect(node)
            release = None
            try:
                with self._lock:
                    if self._cancelled:
                        return Failure(FailureKind.ERROR, f"{node.name}: the run was cancelled")
                    self._open.add(transport)
                done = self._work(node, transport)
                release = self._release
                return done
            finally:
                self._let_go(transport, release)
        except TransportError as error:
            return error.failure
        except ControllerFileError:
            raise  # the controller's disk is full, which is not a failure of the node
        except ClusterctlError as error:
            return Failure(FailureKind.ERROR, error.message, error.hint)

    def _let_go(self, transport: Transport, release: Callable[[Transport], None] | None) -> None:
        with self._lock:
            self._open.discard(transport)
            cancelled = self._cancelled
        if cancelled or release is None:
            transport.close()
        else:
            release(transport)

    def cancel(self) -> None:
        """Start no more nodes and close the connections of the active ones."""
        with self._lock:
            self._cancelled = True
            held = list(self._open)
        while True:
            try:
                self._todo.get_nowait()
            except queue.Empty:
                break
        for transport in held:
            transport.close()


@contextmanager
def _interrupts_afterwards() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, which is short and imports modules.

    Python prints and ignores a KeyboardInterrupt raised in a callback of the import system (``_get_module_lock``).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
    if came:
        signal.raise_signal(signal.SIGINT)


def taken(items: queue.SimpleQueue[T]) -> T:
    """Return the next item, in the main thread with an end to every wait.

    A signal that comes just before a wait does not end it, and Ctrl-C would count only once a node has answered.
    """
    while True:
        try:
            return items.get(timeout=_NOTICE_S)
        except queue.Empty:
            continue


def fan_out(
    nodes: Sequence[Node],
    connect: Callable[[Node], Transport],
    work: Callable[[Node, Transport], T],
    *,
    fanout: int = 64,
    on_start: Callable[[Node], None] | None = None,
    on_done: Callable[[Node, T | Failure], None] | None = None,
    release: Callable[[Transport], None] | None = None,
    meanwhile: Callable[[], None] | None = None,
    on_cancel: Callable[[], None] | None = None,
) -> HostMap[T]:
    """Run ``work`` on every node, ``fanout`` at once; return the results in the order of ``nodes``.

    Each transport is closed when its work has ended, or passed to ``release`` if the work succeeded. ``on_start`` is
    called as the work on each node begins, in its thread. In the caller's thread, ``on_done`` is called as each node
    ends, and ``meanwhile`` once, after all threads have started. An
    interrupt, a ControllerFileError, or an exception that is not a ClusterctlError cancels all other nodes and is
    raised; ``on_cancel`` is called before that closes their connections.
    """
    pool = _Pool(connect, work, nodes, release, on_start)
    threads = [
        threading.Thread(target=pool.run, name=f"clusterctl-fanout-{i}", daemon=True)
        for i in range(max(1, min(fanout, len(nodes))))
    ]
    outcomes: dict[str, T | Failure] = {}
    try:
        for thread in threads:
            thread.start()
        if meanwhile is not None:
            with _interrupts_afterwards():
                meanwhile()
        for _ in nodes:
            node, outcome = taken(pool.outcomes)
            if isinstance(outcome, _Crash):
                raise outcome.error
            outcomes[node.name] = outcome
            if on_done is not None:
                on_done(node, outcome)
    except BaseException:
        if on_cancel is not None:
            on_cancel()
        pool.cancel()
        _join(threads, _CANCEL_TIMEOUT_S)
        raise
    _join(threads, None)
    return HostMap({node.name: outcomes[node.name] for node in nodes})


def _join(threads: list[threading.Thread], timeout_s: float | None) -> None:
    """Wait for the threads; with a limit in seconds, a thread that hangs in the resolver is not waited for."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    for thread in threads:
        if thread.ident is not None:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
