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
_MOST_OUTSIDE = 640
"""Nodes beyond the fan-out whose connection may be awaited; each holds a socket, of 1024 files by default."""
_here = threading.local()


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
        fanout: int,
    ) -> None:
        self._on_start = on_start
        self._slots = self._free = max(1, min(fanout, len(nodes)))
        self._live = self._outside = 0
        self._change = threading.Condition()
        self.threads: list[threading.Thread] = []
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

    def start(self) -> None:
        """Start a thread for each slot."""
        for _ in range(self._slots):
            with self._change:
                thread = self._new_thread()
            thread.start()

    def _new_thread(self) -> threading.Thread:
        self._live += 1
        name = f"clusterctl-fanout-{len(self.threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.threads.append(thread)
        return thread

    def _run(self) -> None:
        """Process nodes until none is left: the body of every thread."""
        _here.pool = self
        try:
            while self._next():
                pass
        finally:
            with self._change:
                self._live -= 1

    def _next(self) -> bool:
        """Process one node in a slot; return False if none is left."""
        self._take_slot()
        _here.in_slot = True
        try:
            try:
                node = self._todo.get_nowait()
            except queue.Empty:
                return False
            if self._on_start is not None:
                self._on_start(node)
            try:
                outcome = self._one(node)
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, which raises it
                outcome = _Crash(error)
            self.outcomes.put((node, outcome))
        finally:
            if _here.in_slot:
                self._give_slot()
        return True

    def _take_slot(self) -> None:
        with self._change:
            self._change.wait_for(lambda: self._free > 0 or self._cancelled)
            self._free -= 1

    def _give_slot(self) -> None:
        with self._change:
            self._free += 1
            self._change.notify()

    def leave_slot(self) -> bool:
        """Give this thread's slot to another node; return False if too many nodes are awaited outside already."""
        thread = None
        with self._change:
            if self._outside >= _MOST_OUTSIDE or self._cancelled:
                return False
            self._outside += 1
            self._free += 1
            self._change.notify()
            if self._live - self._outside < self._slots and not self._todo.empty():
                thread = self._new_thread()
        _here.in_slot = False
        if thread is not None:
            thread.start()
        return True

    def left_node(self) -> None:
        """Note that this thread no longer waits outside."""
        with self._change:
            self._outside -= 1

    def enter_slot(self) -> None:
        """Wait for a slot for the node of this thread, which has answered."""
        self._take_slot()
        _here.in_slot = True

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
        with self._change:
            self._change.notify_all()
        for transport in held:
            transport.close()


@contextmanager
def outside_slot() -> Iterator[None]:
    """Let the fan-out of this thread work on another node while the block waits for one that may be dead.

    ``back_in_slot`` follows if the node has answered. Must not be used with a lock that threads in slots may wait for.
    """
    pool: _Pool[object] | None = getattr(_here, "pool", None)
    if pool is None or not _here.in_slot or not pool.leave_slot():
        yield
        return
    try:
        yield
    finally:
        pool.left_node()


def back_in_slot() -> None:
    """Wait for a slot of the fan-out of this thread, unless it has one or is not part of a fan-out."""
    pool: _Pool[object] | None = getattr(_here, "pool", None)
    if pool is not None and not _here.in_slot:
        pool.enter_slot()


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

    A node whose TCP connection is awaited does not count (``outside_slot``), so that dead nodes delay no others.

    Each transport is closed when its work has ended, or passed to ``release`` if the work succeeded. ``on_start`` is
    called as the work on each node begins, in its thread. In the caller's thread, ``on_done`` is called as each node
    ends, and ``meanwhile`` once, after all threads have started. An
    interrupt, a ControllerFileError, or an exception that is not a ClusterctlError cancels all other nodes and is
    raised; ``on_cancel`` is called before that closes their connections.
    """
    pool = _Pool(connect, work, nodes, release, on_start, fanout)
    outcomes: dict[str, T | Failure] = {}
    try:
        pool.start()
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
        _join(pool.threads, _CANCEL_TIMEOUT_S)
        raise
    _join(pool.threads, None)
    return HostMap({node.name: outcomes[node.name] for node in nodes})


def _join(threads: list[threading.Thread], timeout_s: float | None) -> None:
    """Wait for the threads; with a limit in seconds, a thread that hangs in the resolver is not waited for."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    for thread in threads:
        if thread.ident is not None:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
