"""A process set at work: its communicator, its calls, and the thread that runs them."""

from __future__ import annotations

import logging
import math
import os
import threading
import time

import torch

from collective_core import environment
from collective_core.communicator import Buffer, Communicator, Dtype
from collective_core.errors import CollectiveCoreError, Result
from collective_core.horovod import collectives, stalls
from collective_core.horovod.agreement import Agreed, agree
from collective_core.horovod.devices import Devices
from collective_core.horovod.requests import Kind, Request
from collective_core.horovod.timeline import Timeline
from collective_core.usage import UsageRecorder

_logger = logging.getLogger("collective_core")


class Group:
    """Runs the calls of one process set in the order on which its ranks agree."""

    def __init__(
        self, communicator: Communicator, timeline: Timeline, *, deadline_s: float, cpu: int | None = None
    ) -> None:
        """Take over the communicator. A call that another rank has made must come within `deadline_s`.

        `cpu`: on which the thread runs; None: on any.
        """
        self.communicator = communicator
        self._timeline = timeline
        self._cpu = cpu
        self._devices = Devices(communicator, deadline_s)
        self._at_rest = False
        self._process = os.getpid()
        limits = stalls.limits(deadline_s)
        self._calls = _Calls(limits)
        self._wire = _CommunicatorWire(communicator, self._calls)
        self._thread = threading.Thread(target=self._work, name="ccore-horovod", daemon=True)
        self._thread.start()
        if math.isfinite(limits.warn_s):
            threading.Thread(target=self._calls.watch, name="ccore-horovod-watch", daemon=True).start()

    def submit(self, request: Request) -> None:
        """Queue a call; raises ValueError when one of its name is under way."""
        self._refuse_fork()
        self._calls.add(request)

    def join(self) -> int:
        """Take part in the calls of the others with zeros until all have joined; returns who did so last."""
        self._refuse_fork()
        last: int = self._calls.join().wait()
        return last

    def usage_recorder(self) -> UsageRecorder:
        """Return a recorder of the algorithms and settings that the set uses."""
        return self._devices.usage_recorder()

    def _refuse_fork(self) -> None:
        """Raise in a forked process: it has not the thread, and would wait for ever for what it called."""
        if os.getpid() != self._process:
            raise CollectiveCoreError(
                Result.INVALID_USAGE, "the communicator belongs to another process (fork?)"
            )

    def stop(self) -> None:
        """End the thread and leave. Calls that have not ended, end with an error, here and on the other ranks."""
        self.rest()
        self.communicator.destroy()

    def rest(self) -> None:
        """Do what `stop` does, but leave the communicator to be asked. Idempotent."""
        if self._at_rest:
            return
        self._at_rest = True
        if not self._calls.close():
            self.communicator.abort()
        self._thread.join()
        self._devices.release()

    def _work(self) -> None:
        try:
            if self._cpu is not None:
                os.sched_setaffinity(threading.get_native_id(), {self._cpu})
            with torch.no_grad():
                self._serve()
        except CollectiveCoreError as error:
            # A rank whose patience ended a moment before this one's has ended the communicator: what was waited for
            # is to be known here too.
            if stall := self._calls.stall():
                error = CollectiveCoreError(error.code, f"{str(error).partition(': ')[2]}; {stall}")
            self._calls.fail(error)
        except TimeoutError as error:
            # The others are to hear of it now, not at their deadlines.
            self._calls.fail(error)
            self.communicator.abort()
        finally:
            self._calls.fail(_shut_down())  # whatever happened, nobody waits for this thread any more

    def _serve(self) -> None:
        ran = 0
        while not self._calls.wait_for_work():
            began = time.perf_counter()
            agreed = agree(self._wire, self._calls, ran)
            self._calls.go_on()
            if isinstance(agreed, int):
                self._calls.all_joined(agreed)
                ran = 0
            else:
                ran += self._run(agreed, began)

    def _run(self, agreed: Agreed, began: float) -> bool:
        """Run what is next and return whether it was this rank's own call."""
        request = agreed.request
        if request is None:
            return False
        own = self._calls.take(request)
        what = request.kind.name
        self._timeline.note(request.name, f"NEGOTIATE_{what}", began)
        if agreed.error is not None:
            request.end(None, agreed.error)
            return own
        began = time.perf_counter()
        try:
            request.end(self._result(request))
        except CollectiveCoreError as error:
            request.end(None, error)
            # What is refused here is refused on all ranks, which have agreed on it, before anything was sent; and a
            # process set that could not be made leaves this one as it was.
            if self.communicator.async_error() is not Result.SUCCESS:
                raise
        except (RuntimeError, ValueError, TypeError) as error:  # of torch: no memory for a result, for one
            request.end(None, error)
        self._timeline.note(request.name, what, began)
        return own

    def _result(self, request: Request) -> object:
        if request.kind is Kind.PROCESS_SET:
            # Its ranks meet, and stay, in the network in which those of this set have met.
            return self.communicator.split(0 if self.communicator.rank in request.ranks else None)
        extents = self._wire.gather_numbers(request.extents())
        results = collectives.run(self._devices, request, extents)
        if request.kind is Kind.ALLTOALL:
            received = [of_rank[self.communicator.rank] for of_rank in extents]
            return results[0], torch.tensor(received, dtype=torch.int32, device="cpu")
        return results[0] if request.one and results else results


class _Calls:
    """The calls of this rank, oldest first; callers add, the thread of the set takes."""

    def __init__(self, limits: stalls.Limits) -> None:
        self._limits = limits
        self._cycle_s = environment.number("CCORE_CYCLE_MS", 1, 0, 1e4) / 1e3
        self._stalled_since: float | None = None
        self._missing = ""
        self._warned = False
        self.meeting_since: float | None = None
        """Since when this rank waits for a call of every other rank, whichever call that is."""
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._waiting: dict[str, Request] = {}
        self._joined: Request | None = None
        self._closed = False
        self._failure: Exception | None = None

    def add(self, request: Request) -> None:
        with self._changed:
            if self._failure is not None or self._closed:
                request.end(None, self._failure or _shut_down())
                return
            if request.name in self._waiting:
                raise ValueError(f"{request.name!r}: a call of this name is under way")
            self._waiting[request.name] = request
            self._changed.notify_all()

    def join(self) -> Request:
        with self._changed:
            if self._joined is not None:
                raise ValueError("join: this rank has joined already")
            joined = Request(Kind.BARRIER, "join", [])
            if self._failure is not None or self._closed:
                joined.end(None, self._failure or _shut_down())
            else:
                self._joined = joined
                self._changed.notify_all()
            return joined

    def all_joined(self, last: int) -> None:
        with self._changed:
            joined, self._joined = self._joined, None
        assert joined is not None
        joined.end(last)

    def wait_for_work(self) -> bool:
        """Return when there is something to do, or true when there will not be."""
        with self._changed:
            while not self._waiting and self._joined is None and not self._closed:
                self._changed.wait()
            return self._closed

    def first(self) -> Request | None:
        with self._changed:
            if self._closed:
                raise TimeoutError("horovod was shut down")
            return next(iter(self._waiting.values()), None)

    def names(self) -> list[str]:
        with self._changed:
            return [request.name for request in self._waiting.values()]

    def named(self, name: str) -> Request:
        with self._changed:
            if name not in self._waiting:  # only when closed meanwhile
                raise TimeoutError("horovod was shut down")
            return self._waiting[name]

    def wait_for_more(self, missing: str) -> None:
        now = time.monotonic()
        if self._stalled_since is None:
            self._stalled_since = now
        stalled_s, self._missing = now - self._stalled_since, missing
        if stalled_s >= self._limits.end_s:
            raise TimeoutError(f"after {stalled_s:.0f} s, {missing}")
        if stalled_s >= self._limits.warn_s and not self._warned:
            self._warned = True
            _logger.warning("for %.0f s, %s", stalled_s, missing)
        with self._changed:
            self._changed.wait(self._cycle_s)

    def watch(self) -> None:
        """Warn once of each wait for a rank that makes no call at all; return when the set ends."""
        warned_of: float | None = None
        while not self._ended.wait(min(self._limits.warn_s / 4, 15)):
            since = self.meeting_since
            if since is None or since == warned_of or time.monotonic() - since < self._limits.warn_s:
                continue
            warned_of = since
            names = ", ".join(self.names()[:8]) or "join"
            _logger.warning(
                "for %.0f s, a rank has made no call at all: %s waits for it; "
                "a rank without this warning is the one that is missing",
                time.monotonic() - since, names,
            )  # fmt: skip

    def stall(self) -> str | None:
        """Say for how long no call could run, and what was missing, if that is how it stands."""
        if self._stalled_since is None:
            return None
        return f"after {time.monotonic() - self._stalled_since:.0f} s, {self._missing}"

    def go_on(self) -> None:
        """Forget a stall, if there was one: all ranks have agreed on what is next."""
        self._stalled_since, self._warned = None, False

    def take(self, request: Request) -> bool:
        """Remove a call that runs now; false for one that stands in for a joined rank."""
        with self._changed:
            return self._waiting.pop(request.name, None) is not None

    def close(self) -> bool:
        """Take no more calls; return whether none was left."""
        with self._changed:
            self._closed = True
            self._ended.set()
            clean = not self._waiting and self._joined is None and self._failure is None
            self._changed.notify_all()
        if not clean:
            self.fail(_shut_down())
        return clean

    def fail(self, error: Exception) -> None:
        """End all calls, and those to come, with an error."""
        with self._changed:
            self._failure = self._failure or error
            self._ended.set()
            left = [*self._waiting.values(), *([self._joined] if self._joined else [])]
            self._waiting.clear()
            self._joined = None
        for request in left:
            request.end(None, self._failure)


def _shut_down() -> Exception:
    return RuntimeError("horovod was shut down")


class _CommunicatorWire:
    """The exchanges of the agreement over the communicator itself."""

    def __init__(self, communicator: Communicator, calls: _Calls) -> None:
        self._communicator = communicator
        self._calls = calls

    def gather(self, frame: bytes) -> list[bytes]:
        size = self._communicator.size
        mine = bytearray(frame)
        all_of_them = bytearray(len(frame) * size)
        self._calls.meeting_since = time.monotonic()
        self._communicator.all_gather(_bytes_of(mine), _bytes_of(all_of_them))
        self._calls.meeting_since = None
        return [bytes(all_of_them[at : at + len(frame)]) for at in range(0, len(all_of_them), len(frame))]

    def gather_texts(self, text: str) -> list[str]:
        data = bytearray(text.encode())
        lengths = [row[0] for row in self.gather_numbers([len(data)])]
        joined = bytearray(sum(lengths))
        self._communicator.all_gatherv(_bytes_of(data), _bytes_of(joined), lengths)
        ends = [sum(lengths[: rank + 1]) for rank in range(len(lengths))]
        return [joined[end - length : end].decode() for length, end in zip(lengths, ends, strict=True)]

    def gather_numbers(self, numbers: list[int]) -> list[list[int]]:
        if not numbers:
            return []
        size = self._communicator.size
        mine = torch.tensor(numbers, dtype=torch.int64, device="cpu")
        all_of_them = mine.new_empty((size, len(numbers)))
        self._communicator.all_gather(
            Buffer(mine.data_ptr(), mine.numel(), Dtype.INT64, mine),
            Buffer(all_of_them.data_ptr(), all_of_them.numel(), Dtype.INT64, all_of_them),
        )
        rows: list[list[int]] = all_of_them.tolist()
        return rows


def _bytes_of(data: bytearray) -> Buffer:
    """Make a buffer of memory that is writable and stays where it is."""
    view = (
        torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8, device="cpu")
    )
    return Buffer(view.data_ptr(), view.numel(), Dtype.UINT8, view)
