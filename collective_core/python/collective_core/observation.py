"""What a communicator reports of its ranks, its operations, its settings, its choices and its tuner."""

from __future__ import annotations

from collections.abc import Iterable
from ctypes import byref, c_size_t, c_void_p, sizeof
from dataclasses import dataclass

from collective_core import _lib
from collective_core.enums import CudaPath, Dtype, Memory, Operation, Reason, SettingSource
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


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable that the library reads: the value in effect, and where it comes from.

    `spelled` is the name or alias under which the environment of this process sets it, or "". `note`: of what cannot be
    used, why. The value of a secret is "***".
    """

    name: str
    value: str
    source: SettingSource
    spelled: str
    note: str
    is_secret: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits within which the library decides.

    `least_2d_bytes` and `most_2d_bytes`: for which sizes `all_reduce` on several nodes may take 2d unless it is forced;
    `least` above `most`: for none. `least_device_2d_bytes`: from which sizes on those of device memory take the GPUs
    inside the nodes, by the `CudaPath` of the slowest node; `AUTO`: the least of them. Equal on all ranks.
    """

    timeout_s: float
    least_2d_bytes: int
    most_2d_bytes: int
    least_device_2d_bytes: tuple[int, ...]

    def allow_device_2d(self, size_bytes: int, paths: Iterable[CudaPath] = ()) -> bool:
        """Return whether device memory of this size is reduced by the GPUs inside the nodes.

        `paths`: of each rank's node, AUTO for a rank that is alone on its node. The node with the slowest path decides,
        for all wait for it. Without paths: whether the ranks should meet to find out.
        """
        least = [self.least_device_2d_bytes[path] for path in paths if path is not CudaPath.AUTO]
        return (
            max(least, default=self.least_device_2d_bytes[CudaPath.AUTO]) <= size_bytes <= self.most_2d_bytes
        )


@dataclass(frozen=True, slots=True)
class Description:
    """How an operation is carried out; `size_bytes` is that of the whole data, by which it is chosen."""

    size_bytes: int
    algorithm: str
    reason: Reason
    path: str
    transport: str


@dataclass(frozen=True, slots=True)
class Count:
    """How often an operation of one size ran by one algorithm.

    `is_rounded`: a row for all sizes from `size_bytes` to below twice as many; the first 512 sizes have rows of their
    own.
    """

    operation: Operation
    size_bytes: int
    algorithm: str
    calls: int
    errors: int
    total_s: float
    is_rounded: bool


def settings_of(handle: c_void_p | None) -> list[Setting]:
    """Return all settings in the order of docs/environment.md; None: as the environment of this process alone says."""
    return [
        Setting(
            name=one.name.decode(),
            value=one.value.decode(errors="replace"),
            source=SettingSource(one.source),
            spelled=one.spelled.decode(),
            note=one.note.decode(errors="replace"),
            is_secret=bool(one.secret),
        )
        for one in _lib.entries_of(_lib.library().cc_get_settings, handle, _lib.Setting)
    ]


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

    def counts(self) -> list[Count]:
        """Return how often each operation of each size ran by each algorithm; from any thread."""
        return [
            Count(
                operation=Operation(one.operation),
                size_bytes=one.bytes,
                algorithm=one.algorithm.decode(),
                calls=one.calls,
                errors=one.errors,
                total_s=one.total_ns / 1e9,
                is_rounded=bool(one.rounded),
            )
            for one in _lib.entries_of(self._library.cc_comm_counts, self._live(), _lib.Count)
        ]

    def describe(
        self, operation: Operation, count: int, dtype: Dtype, memory: Memory = Memory.HOST
    ) -> Description:
        """Return how a collective of `count` elements would be carried out next; waits for a running operation."""
        found = _lib.Description(size=sizeof(_lib.Description))
        arguments = (int(operation), count, int(dtype), int(memory), byref(found))
        _lib.check(self._library.cc_describe(self._live(), *arguments))
        return Description(
            size_bytes=found.bytes,
            algorithm=found.algorithm.decode(),
            reason=Reason(found.reason),
            path=found.path.decode(),
            transport=found.transport.decode(),
        )

    def limits(self) -> Limits:
        """Return the limits within which the library decides."""
        found = _lib.Limits(size=sizeof(_lib.Limits))
        _lib.check(self._library.cc_get_limits(self._live(), byref(found)))
        return Limits(
            timeout_s=found.timeout_ms / 1000,
            least_2d_bytes=found.least_2d_bytes,
            most_2d_bytes=found.most_2d_bytes,
            least_device_2d_bytes=tuple(found.least_device_2d_bytes),
        )

    def settings(self) -> list[Setting]:
        """Return all settings and where each comes from."""
        return settings_of(self._live())

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
