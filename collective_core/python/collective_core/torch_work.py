"""Asynchronous operations for torch: a Work with a Future, completed by one worker thread per group."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from collective_core.errors import CollectiveCoreError


class CcoreBackendError(dist.DistBackendError):
    """A collective of the ccore backend failed; the text names operation, rank and cause."""


# Any: as in torch_backend, the stubs differ between releases.
_Work: Any = dist.Work


class CcoreWork(_Work):  # type: ignore[misc]  # see above
    """One operation on its way."""

    def __init__(self, description: str) -> None:
        """Make a work that is not complete yet."""
        super().__init__()
        self.description = description
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._plain: torch.futures.Future[Any] = torch.futures.Future()
        # An exception set on a Future from Python is only a value to C++, and DDP's reducer is C++. A
        # callback that raises makes a Future that failed for both.
        self._future = self._plain.then(self._unwrap)

    def _unwrap(self, plain: torch.futures.Future[Any]) -> Any:
        if self._error is not None:
            raise self._error
        return plain.value()

    def complete(self, result: Any, error: BaseException | None) -> None:
        """Publish the result or the error; called once."""
        self._error = error
        self._done.set()
        self._plain.set_result(result)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until complete; raises CcoreBackendError. Zero means the operation's own deadline."""
        seconds = timeout.total_seconds()
        if not self._done.wait(seconds if seconds > 0 else None):
            raise CcoreBackendError(f"{self.description}: not complete after {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """Return the future of the output tensors, without blocking."""
        return self._future

    def is_completed(self) -> bool:
        """Tell whether the operation has ended, well or not."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Tell whether it has ended well."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """Return the error, if it has ended with one."""
        return self._error

    def result(self) -> Any:
        """Return the output tensors after the end."""
        self.wait()
        return self._plain.value()


class Worker:
    """Runs operations one after the other, in the order in which they were submitted."""

    def __init__(self, name: str) -> None:
        """Start the thread. It is a daemon: a process that forgot to destroy its group can still end."""
        self._queue: queue.SimpleQueue[tuple[CcoreWork, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, description: str, operation: Callable[[], Any]) -> CcoreWork:
        """Queue an operation. The queue keeps the Work alive, whatever C++ does with its own reference."""
        work = CcoreWork(description)
        self._queue.put((work, operation))
        return work

    def stop(self) -> None:
        """Finish what is queued, then end the thread."""
        self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            work, operation = item
            try:
                result = operation()
            except CollectiveCoreError as error:
                work.complete(None, CcoreBackendError(f"{work.description}: {error}"))
            except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
                # torch's own copies can fail too: shapes, types. The waiter hears of it, the thread lives on.
                work.complete(None, error)
            else:
                work.complete(result, None)
