"""What a communicator tells of its ranks, its operations, its settings and its tuner."""

from __future__ import annotations

from ctypes import byref, c_size_t, sizeof
from dataclasses import dataclass

from collective_core import _lib
from collective_core.enums import Dtype, Operation
from collective_core.errors import Result
from collective_core.handle import Handle


@dataclass(frozen=True, slots=True)
class Peer:
    """What is known of a rank; the byte counts are payload between this rank and it."""

    rank: int
    node: int
    local_rank: int
    local_size: int
    pid: int
    host: str
    address: str
    transport: str
    payload_bytes_sent: int
    payload_bytes_received: int


@dataclass(frozen=True, slots=True)
class OperationStats:
    """Sums over the operations of a kind; `bytes` are the caller's, times contain the waiting for other ranks."""

    calls: int
    errors: int
    bytes: int
    total_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One of the last operations. Times are CLOCK_MONOTONIC; `end_ns` is None while it runs.

    `root` is the other rank of a send or a receive; `waits_for` the rank that it last had to wait for.
    """

    operation: Operation
    sequence: int
    count: int
    dtype: Dtype
    algorithm: str
    root: int
    tag: int
    result: Result
    waits_for: int | None
    start_ns: int
    end_ns: int | None


class Observation(Handle):
    """Each call returns without waiting for other ranks."""

    def peer(self, rank: int) -> Peer:
        """Return what is known of a rank."""
        info = _lib.PeerInfo(size=sizeof(_lib.PeerInfo))
        _lib.check(self._library.cc_comm_peer_info(self._live(), rank, byref(info)))
        return Peer(
            rank=info.rank,
            node=info.node,
            local_rank=info.local_rank,
            local_size=info.local_size,
            pid=info.pid,
            host=info.host.decode(errors="replace"),
            address=info.address.decode(),
            transport=info.transport.decode(),
            payload_bytes_sent=info.payload_bytes_sent,
            payload_bytes_received=info.payload_bytes_received,
        )

    def stats(self) -> dict[Operation, OperationStats]:
        """Return sums over all operations that have ended, for each kind that was called; from any thread."""
        found = {}
        for operation in Operation:
            sums = _lib.OpStats(size=sizeof(_lib.OpStats))
            _lib.check(self._library.cc_comm_stats(self._live(), int(operation), byref(sums)))
            if sums.calls:
                found[operation] = OperationStats(
                    calls=sums.calls,
                    errors=sums.errors,
                    bytes=sums.bytes,
                    total_s=sums.total_ns / 1e9,
                    longest_s=sums.longest_ns / 1e9,
                )
        return found

    def trace(self) -> list[TraceEntry]:
        """Return the last 64 operations, oldest first, the running one included; from any thread."""
        entries = (_lib.TraceEntry * _lib.TRACE_ENTRIES)()
        count = c_size_t(len(entries))
        _lib.check(self._library.cc_comm_trace(self._live(), entries, sizeof(_lib.TraceEntry), byref(count)))
        return [_trace_entry(one) for one in entries[: count.value]]

    def tuner_dump(self) -> str:
        """Return which algorithms the tuner took: a line for each kind of operation that has several."""
        handle = self._live()
        return _lib.text_of(self._library.cc_tuner_dump, handle)

    def dump_config(self) -> str:
        """Return all settings and where each came from: a line `NAME=value (source)` for each that is read."""
        return _lib.text_of(self._library.cc_dump_config, self._live())


def _trace_entry(raw: _lib.TraceEntry) -> TraceEntry:
    return TraceEntry(
        operation=Operation(raw.operation),
        sequence=raw.sequence,
        count=raw.count,
        dtype=Dtype(raw.dtype),
        algorithm=raw.algorithm.decode(),
        root=raw.root,
        tag=raw.tag,
        result=Result(raw.result),
        waits_for=None if raw.waits_for < 0 else raw.waits_for,
        start_ns=raw.start_ns,
        end_ns=raw.end_ns or None,
    )
