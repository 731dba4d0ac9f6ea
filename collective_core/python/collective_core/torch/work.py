"""Asynchronous operations for torch: a Work with a Future, completed by one worker thread per group."""

from __future__ import annotations

import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from collective_core.errors import CollectiveCoreError


class CcoreBackendError(dist.DistBackendError):
    """A collective of the ccore backend failed; the text names operation, rank and cause."""


# Any: as in torch_backend, the stubs differ between releases. `dist.Work` is younger than 2.4.
_Work: Any = vars(dist)["_Work"]


# Ended works that nobody has asked yet. Where torch does not keep the Python part of a Work (seen in 2.6), C++ that
# waits for one whose Python part is gone waits for ever. Bounded, because nobody need ask.
_MOST_UNASKED = 1024
_unasked: dict[int, WorkBase] = {}
_unasked_lock = threading.Lock()
# The work for which each thread has waited last, if its result is small. DDP's reducer waits for a sum of one element
# and then takes the future of that work, which torch finds through the Python part alone.
_waited = threading.local()
_SMALL_BYTES = 1024


class WorkBase(_Work):  # type: ignore[misc]  # see above
    """The base of the works of this backend."""


def keep(work: WorkBase) -> None:
    """Keep a work until it is released: C++ may hold it without its Python part."""
    with _unasked_lock:
        _unasked[id(work)] = work
        if len(_unasked) > _MOST_UNASKED:
            del _unasked[next(iter(_unasked))]


def release(work: WorkBase) -> None:
    """Let a work go that was asked for its result."""
    with _unasked_lock:
        _unasked.pop(id(work), None)


def release_waited(work: WorkBase, result: Any) -> None:
    """Let a work go for which this thread has waited; until its next wait, keep one whose result is small."""
    release(work)
    _waited.work = work if _is_small(result) else None


def _is_small(result: Any) -> bool:
    if not isinstance(result, list) or len(result) != 1 or not isinstance(result[0], torch.Tensor):
        return False
    # Of the storage: a small view keeps all of it. Sparse tensors have none of their own.
    return result[0].layout is torch.strided and result[0].untyped_storage().nbytes() <= _SMALL_BYTES


class CcoreWork(WorkBase):
    """One operation on its way."""

    def __init__(
        self,
        description: str,
        span: torch.futures.Future[Any] | None = None,
        source: Callable[[], int] | None = None,
    ) -> None:
        """Make a work that is not complete yet.

        `span` is the profiler's and told of the end before anybody else; `source` tells who sent what is received
        from any rank.
        """
        super().__init__()
        self.description = description
        self.runner: threading.Thread | None = None  # the thread that is to run it, if it is queued
        self._span = span
        self._source = source
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: Any = None
        self._lock = threading.Lock()
        self._futures: tuple[torch.futures.Future[Any], torch.futures.Future[Any]] | None = None

    def complete(self, result: Any, error: BaseException | None) -> None:
        """Publish the result or the error; called once."""
        self._result, self._error = result, error
        if self._span is not None:
            self._span.set_result(None)
        with self._lock:
            futures = self._futures
            if futures is None:
                keep(self)
            self._done.set()
        if futures is not None:
            futures[0].set_result(result)

    def get_future(self) -> torch.futures.Future[Any]:
        """Return the future of the output tensors, without blocking."""
        with self._lock:
            made = self._futures is None
            if self._futures is None:
                # An exception set on a Future from Python is only a value to C++, and DDP's reducer is C++. A
                # callback that raises makes a Future that failed for both.
                plain: torch.futures.Future[Any] = torch.futures.Future()
                self._futures = (plain, plain.then(self._unwrap))
            futures, ended = self._futures, self._done.is_set()
        if made and ended:
            release(self)
            futures[0].set_result(self._result)
        return futures[1]

    def _unwrap(self, plain: torch.futures.Future[Any]) -> Any:
        if self._error is not None:
            raise self._error
        return plain.value()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until complete; raises CcoreBackendError. Zero means the operation's own deadline."""
        seconds = timeout.total_seconds()
        if self.runner is threading.current_thread() and not self._done.is_set():
            raise self.unreachable()
        if not self._done.wait(seconds if seconds > 0 else None):
            raise CcoreBackendError(f"{self.description}: not complete after {seconds} s")
        release_waited(self, self._result)
        if self._error is not None:
            raise self._error
        return True

    def unreachable(self) -> CcoreBackendError:
        """Return why a callback may not wait for this."""
        return CcoreBackendError(
            f"{self.description}: a callback on a Future cannot wait for this: its thread is the one to run it"
        )

    def is_completed(self) -> bool:
        """Tell whether the operation has ended, well or not."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Tell whether it has ended well."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """Return the error, if it has ended with one."""
        return self._error

    def _source_rank(self) -> int:
        """Return the sender's rank after the end of a receive from any rank."""
        self.wait()
        if self._source is None:
            raise CcoreBackendError(f"{self.description} does not receive from any rank")
        return self._source()

    def result(self) -> Any:
        """Return the output tensors after the end."""
        self.wait()
        return self._result


class Task:
    """What the worker runs."""

    work: CcoreWork


@dataclass(frozen=True, slots=True)
class Single(Task):
    """One operation, alone."""

    work: CcoreWork
    operation: Callable[[], Any]


Queue = queue.SimpleQueue[Task | None]
# Told of a task's end: its result, or its error.
Ended = Callable[[Task, Any, BaseException | None], None]


class Batch(Task, ABC):
    """A task that may take others of its kind from the queue and run them together with itself."""

    @abstractmethod
    def run(self, queued: Queue, ended: Ended) -> list[Task | None]:
        """Run; tell of the end of each task; return what was taken from the queue and not run."""


class Worker:
    """Runs tasks one after the other, in the order in which they were submitted."""

    def __init__(self, name: str) -> None:
        """Start the thread. It is a daemon: a process that forgot to destroy its group can still end."""
        self._queue: Queue = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        # Held while the communicator is in use: a batch tells of its last task's end before it closes its group.
        self._in_use = threading.Lock()
        self._in_batch = False  # of the thread itself
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: CcoreWork, operation: Callable[[], Any], *, caller_waits: bool) -> CcoreWork:
        """Queue an operation, or run it here if the caller would only wait for it and none is before it.

        The queue keeps the Work alive, whatever C++ does with its own reference.
        """
        self._refuse_fork(work)
        in_callback = threading.current_thread() is self._thread
        if in_callback and self._in_batch and caller_waits:
            # It is not queued either: who was told that it is refused does not expect it to run, and to meet what
            # the other ranks call then.
            work.complete(None, work.unreachable())
            return work
        task = Single(work, operation)
        with self._lock:
            first = self._unfinished == 0
            self._unfinished += 1
        if in_callback and not self._in_batch:
            # On the Future of the operation that has just ended. Such callbacks wait for what they call, which this
            # thread alone could run; and in this place it comes in the same order on all ranks, however far the
            # rest of the program has got on each.
            self._perform(task)
        elif first and caller_waits and not in_callback:
            with self._in_use:
                self._perform(task)
        else:
            self._put(task)
        return work

    def enqueue(self, task: Task) -> None:
        """Queue a task."""
        self._refuse_fork(task.work)
        with self._lock:
            self._unfinished += 1
        self._put(task)

    def _refuse_fork(self, work: CcoreWork) -> None:
        """Raise in a forked process: it has none of the threads, and would wait for ever for what it called."""
        if os.getpid() != self._process:
            raise CcoreBackendError(
                f"{work.description}: the process group belongs to another process (fork?)"
            )

    def _put(self, task: Task) -> None:
        task.work.runner = self._thread
        self._queue.put(task)

    def stop(self) -> None:
        """Finish what is queued, then end the thread."""
        self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        taken: list[Task | None] = []
        while (task := taken.pop() if taken else self._queue.get()) is not None:
            with self._in_use:
                if isinstance(task, Batch):
                    self._in_batch = True
                    taken = task.run(self._queue, self._ended)
                    self._in_batch = False
                elif isinstance(task, Single):
                    self._perform(task)
            # The wait for the next task must not keep the tensors of this one.
            del task

    def _perform(self, task: Single) -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = task.operation()
        except CollectiveCoreError as error:
            failure = CcoreBackendError(f"{task.work.description}: {error}")
        except Exception as error:  # noqa: BLE001  # not to be lost: it is the waiter's
            # torch's own copies can fail too: shapes, types. The waiter hears of it, the thread lives on.
            failure = error
        except BaseException as error:  # an interrupt, on the caller's own thread
            failure = error
            raise
        finally:
            self._ended(task, result, failure)

    def _ended(self, task: Task, result: Any, failure: BaseException | None) -> None:
        # Before it is complete: whoever waits for it may submit the next one at once.
        with self._lock:
            self._unfinished -= 1
        task.work.complete(result, failure)
