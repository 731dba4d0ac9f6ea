"""Asynchronous operations for torch: a Work with a Future, completed by one worker thread per group."""

from __future__ import annotations

import os
import queue
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
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


# Ended works whose result no caller has read yet. Some releases of torch (seen in 2.6) drop the Python part of a Work,
# and C++ code that then waits for this Work hangs. The number is bounded, because a caller may never read a result.
_MOST_UNASKED = 1024
_unasked: OrderedDict[int, WorkBase] = OrderedDict()  # each call of it below is atomic
# The last work that each thread has waited for, if its result is small. DDP's reducer waits for a sum of one element,
# and then requests the future of that work, which torch finds only through the work's Python part.
_waited = threading.local()
_SMALL_BYTES = 1024


class WorkBase(_Work):  # type: ignore[misc]  # see above
    """The base of the works of this backend."""


def keep(work: WorkBase) -> None:
    """Keep a work until it is released: C++ may hold it without its Python part."""
    _unasked[id(work)] = work
    if len(_unasked) > _MOST_UNASKED:
        _unasked.popitem(last=False)


def release(work: WorkBase) -> None:
    """Drop the reference to a work whose result a caller has read."""
    _unasked.pop(id(work), None)


def release_waited(work: WorkBase, result: Any) -> None:
    """Drop the reference to a work that this thread has waited for; keep a small result until its next wait."""
    release(work)
    _waited.work = work if _is_small(result) else None


def _is_small(result: Any) -> bool:
    if not isinstance(result, list) or len(result) != 1 or not isinstance(result[0], torch.Tensor):
        return False
    tensor = result[0]
    if tensor.numel() > _SMALL_BYTES:  # of a byte each or more
        return False
    # Of the storage: a small view keeps all of it. Sparse tensors have none of their own.
    return tensor.layout is torch.strided and tensor.untyped_storage().nbytes() <= _SMALL_BYTES


class CcoreWork(WorkBase):
    """One operation on its way."""

    def __init__(
        self,
        description: str,
        span: torch.futures.Future[Any] | None = None,
        source: Callable[[], int] | None = None,
    ) -> None:
        """Make a work that is not complete yet.

        `span` is the profiler's future, which completes first; `source` returns the sender's rank of a receive from
        any rank.
        """
        super().__init__()
        self.description = description
        self.runner: threading.Thread | None = None  # the thread that is to run it, if it is queued
        self.can_be_refused = False  # while it is queued: it does not run then
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
            if not self.can_be_refused:
                raise self.unreachable()
            # It must not run later either: it would meet other calls of the other ranks.
            self.complete(None, self.unreachable())
        if not self._done.wait(seconds if seconds > 0 else None):
            raise CcoreBackendError(f"{self.description}: not complete after {seconds} s")
        release_waited(self, self._result)
        if self._error is not None:
            raise self._error
        return True

    def unreachable(self) -> CcoreBackendError:
        """Return why a callback may not wait for this."""
        return CcoreBackendError(
            f"{self.description}: a callback on a Future cannot wait for this operation, because the same thread "
            "would run it; wait for it outside of the callback"
        )

    def is_completed(self) -> bool:
        """Return whether the operation has ended, with or without an error."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Return whether the operation has ended without an error."""
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
# Called at a task's end, with its result or its error.
Ended = Callable[[Task, Any, BaseException | None], None]


class Batch(Task, ABC):
    """A task that may take others of its kind from the queue and run them together with itself."""

    @abstractmethod
    def run(self, queued: Queue, ended: Ended) -> list[Task | None]:
        """Run, call `ended` for each task that has run, and return tasks taken from the queue that have not."""


class Worker:
    """Runs tasks one after the other, in the order in which they were submitted."""

    def __init__(self, name: str) -> None:
        """Start the thread. It is a daemon: a process that forgot to destroy its group can still end."""
        self._queue: Queue = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        # Held while the communicator is in use: a batch reports its last task's end before it closes its group.
        self._in_use = threading.Lock()
        self._in_batch = False  # of the thread itself
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: CcoreWork, operation: Callable[[], Any], *, caller_waits: bool) -> CcoreWork:
        """Queue an operation, or run it on this thread if the caller waits for it and the queue is empty.

        The queue keeps the Work alive, whatever C++ does with its own reference.
        """
        self._refuse_fork(work)
        in_callback = threading.current_thread() is self._thread
        if in_callback and self._in_batch and caller_waits:
            # torch 2.4 does not tell whether the caller waits: there, wait() refuses it.
            work.complete(None, work.unreachable())
            return work
        task = Single(work, operation)
        with self._lock:
            first = self._unfinished == 0
            self._unfinished += 1
        if in_callback and not self._in_batch:
            # A callback on the Future of the operation that has just ended. It waits for its operation, which only
            # this thread can run. Here, the operation has the same place in the order of all ranks.
            self._perform(task)
        elif first and caller_waits and not in_callback:
            with self._in_use:
                self._perform(task)
        else:
            work.can_be_refused = True
            self._put(task)
        return work

    def enqueue(self, task: Task) -> None:
        """Queue a task."""
        self._refuse_fork(task.work)
        with self._lock:
            self._unfinished += 1
        self._put(task)

    def _refuse_fork(self, work: CcoreWork) -> None:
        """Raise in a forked process: it does not have the threads, so its operations would never end."""
        if os.getpid() != self._process:
            raise CcoreBackendError(
                f"{work.description}: the process group belongs to another process, which forked this one; "
                "create a group in this process"
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
        if task.work.is_completed():  # refused while it was queued
            with self._lock:
                self._unfinished -= 1
            return
        result: Any = None
        failure: BaseException | None = None
        try:
            result = task.operation()
        except CollectiveCoreError as error:
            failure = CcoreBackendError(f"{task.work.description}: {error}")
        except Exception as error:  # noqa: BLE001  # raised by wait(), and the thread goes on
            # torch's own copies can fail too, for example by shapes and types.
            failure = error
        except BaseException as error:  # an interrupt, on the caller's own thread
            failure = error
            raise
        finally:
            self._ended(task, result, failure)

    def _ended(self, task: Task, result: Any, failure: BaseException | None) -> None:
        # Before the work completes: a thread that waits for it may submit the next one at once.
        with self._lock:
            self._unfinished -= 1
        task.work.complete(result, failure)
