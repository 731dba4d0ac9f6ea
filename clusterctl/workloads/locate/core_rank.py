"""A rank of ``locate`` without torch: the CPU and host memory, over collective_core alone."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from clusterctl.workloads import rank_values
from clusterctl.workloads.locate import cpu
from clusterctl.workloads.locate.fleet import RankFleet
from clusterctl.workloads.locate.tools import ExchangePart, OwnWork, T
from clusterctl.workloads.places import RankError

_HASHED_BYTES = 256 << 10


class CoreRank:
    """See :class:`RankTools`."""

    def __init__(self, message_bytes: int | None, timeout_s: float) -> None:
        """Meet the other ranks as the launch says; raise RankError if collective_core cannot be used."""
        try:
            from collective_core.communicator import Communicator
            from collective_core.errors import LibraryNotFoundError
        except ImportError as error:
            raise RankError(f"the library ccore needs collective_core: {error}") from None
        try:
            self._all = Communicator.from_environment(timeout_s=timeout_s, init_timeout_s=timeout_s)
        except LibraryNotFoundError as error:
            raise RankError(str(error)) from None
        self.rank, self.size, self.device = self._all.rank, self._all.size, cpu.name()
        self.message_bytes = message_bytes or cpu.MESSAGE_BYTES
        self.iters, self.window_s = cpu.ITERS, cpu.WINDOW_S
        self._send, self._receive = _bytes(self.message_bytes), _bytes(self.message_bytes)
        self._confirmation, self._greeting = _bytes(1), _bytes(1)
        self._rail, self._members = self._all, list(range(self.size))

    def use_rails(self, fleet: RankFleet, rails: Sequence[str]) -> None:
        """Make a communicator of the ranks of this place over its interface."""
        _, place = fleet.where(self.rank)
        made = self._all.split(place, self.rank, interface_name=rails[place % len(rails)])
        if made is not None:
            self._rail, self._members = made, fleet.ranks_of_place(place)

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self._all.barrier()

    def gathered(self, value: object, read: Callable[[object], T]) -> list[T]:
        """Return the value of each rank."""
        return rank_values.gather(self, value, read)

    def sizes(self, own: int) -> list[int]:
        """Return the whole number of each rank."""
        found = (ctypes.c_uint64 * self.size)()
        self._all.all_gather((ctypes.c_uint64 * 1)(own), found)
        return list(found)

    def parts(self, own: bytes, sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes of each rank."""
        found = _bytes(sum(sizes))
        self._all.all_gatherv((ctypes.c_ubyte * len(own)).from_buffer_copy(own), found, list(sizes))
        joined, ends = bytes(found), list(itertools.accumulate(sizes))
        return [joined[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def exchange(self, peer: int, iters: int, part: ExchangePart) -> float:
        """Exchange messages, and return the seconds of one."""
        other = self._members.index(peer)
        # As with torch: both ranks start when the earlier messages have arrived, and end when these have.
        self._meet(other)
        started = time.perf_counter()
        for _ in range(iters):
            if part is ExchangePart.SEND:
                self._rail.send(self._send, other)
                self._rail.recv(self._confirmation, other)
            elif part is ExchangePart.RECEIVE:
                self._rail.recv(self._receive, other)
                self._rail.send(self._confirmation, other)
            else:
                with self._rail.group():
                    self._rail.send(self._send, other)
                    self._rail.recv(self._receive, other)
        self._meet(other)
        return (time.perf_counter() - started) / iters

    def _meet(self, other: int) -> None:
        with self._rail.group():
            self._rail.send(self._confirmation, other)
            self._rail.recv(self._greeting, other)

    def own_work(self) -> OwnWork:
        """Return hashing, for which the CPU's speed counts, and copies."""
        source, target = _bytes(cpu.COPY_BYTES), _bytes(cpu.COPY_BYTES)
        hashed = bytes(_HASHED_BYTES)
        return {
            "hash": (lambda: hashlib.sha256(hashed), float(_HASHED_BYTES)),
            "memory": (lambda: ctypes.memmove(target, source, cpu.COPY_BYTES), 2.0 * cpu.COPY_BYTES),
        }

    def finish(self) -> None:
        """Return at once: a CPU has done its work when the call returns."""

    def leave(self) -> None:
        """Destroy the communicators."""
        if self._rail is not self._all:
            self._rail.destroy()
        self._all.destroy()


def _bytes(size: int) -> Any:
    return (ctypes.c_ubyte * size)()
