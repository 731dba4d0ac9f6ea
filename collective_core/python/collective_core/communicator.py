"""A communicator with Python manners: context manager, seconds, exceptions, arrays."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_ubyte, c_void_p, sizeof
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from collective_core import _lib, meeting
from collective_core.errors import CollectiveCoreError, Result
from collective_core.topk import Residual, Topk


class Dtype(IntEnum):
    """cc_dtype."""

    FLOAT64 = 0
    FLOAT32 = 1
    FLOAT16 = 2
    BFLOAT16 = 3
    INT8 = 4
    UINT8 = 5
    INT32 = 6
    UINT32 = 7
    INT64 = 8
    UINT64 = 9


class Redop(IntEnum):
    """cc_redop."""

    SUM = 0
    PROD = 1
    MIN = 2
    MAX = 3
    AVG = 4


class Transport(IntEnum):
    """cc_transport."""

    AUTO = 0
    SHM = 1
    TCP = 2


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


class Operation(IntEnum):
    """cc_operation."""

    ALL_REDUCE = 1
    BROADCAST = 2
    ALL_GATHER = 3
    REDUCE_SCATTER = 4
    BARRIER = 5
    SEND = 6
    REDUCE = 7
    GATHER = 8
    SCATTER = 9
    ALL_TO_ALL = 10
    ALL_TO_ALLV = 11
    ALL_GATHERV = 12
    TOPK_ALL_REDUCE = 13
    CPU_REDUCE = 14
    SPLIT = 20
    FINALIZE = 21
    MEM_REGISTER = 23
    MEM_DEREGISTER = 24
    RECV = 32


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
class Buffer:
    """Host memory: address, elements and their type. `owner` keeps the memory alive."""

    address: int
    count: int
    dtype: Dtype
    owner: object = None


class Source:
    """Who sent what `recv_any` received."""

    def __init__(self) -> None:
        """Make one that is not known yet."""
        self._cell = c_int(-1)

    @property
    def rank(self) -> int:
        """Its rank; -1 as long as the receive, called in a group, has not ended."""
        return self._cell.value


_TYPESTRS = {
    "f8": Dtype.FLOAT64,
    "f4": Dtype.FLOAT32,
    "f2": Dtype.FLOAT16,
    "i1": Dtype.INT8,
    "u1": Dtype.UINT8,
    "i4": Dtype.INT32,
    "u4": Dtype.UINT32,
    "i8": Dtype.INT64,
    "u8": Dtype.UINT64,
}


def as_buffer(array: Any) -> Buffer:
    """Take a Buffer, a C-contiguous numpy array or a ctypes array as memory; raises CollectiveCoreError."""
    if isinstance(array, Buffer):
        return array
    if isinstance(array, ctypes.Array):
        view = memoryview(array).cast("B")
        kind = {"f": "f", "d": "f"}.get(array._type_._type_, "i" if _is_signed(array) else "u")
        dtype = _TYPESTRS[f"{kind}{sizeof(array._type_)}"]
        return Buffer(ctypes.addressof(array), view.nbytes // sizeof(array._type_), dtype, array)
    interface = getattr(array, "__array_interface__", None)
    if interface is None:
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT, f"{type(array).__name__} is not an array in host memory"
        )
    if interface.get("strides") is not None:
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, "the array is not C-contiguous")
    dtype_or_none = _TYPESTRS.get(interface["typestr"][1:])
    if dtype_or_none is None or interface["typestr"][0] == ">":
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, f"unsupported element type {interface['typestr']}")
    return Buffer(interface["data"][0], math.prod(interface["shape"]), dtype_or_none, array)


def _is_signed(array: Any) -> bool:
    return bool(array._type_(-1).value < 0)


def get_unique_id() -> bytes:
    """Start a rendezvous in this process and return its id, for all ranks. It holds a secret."""
    unique_id = _lib.UniqueId()
    _lib.check(_lib.library().cc_get_unique_id(byref(unique_id)))
    return bytes(unique_id.bytes)


def unique_id_from_address(address: str, port: int, secret: str, *, is_root: bool) -> bytes:
    """Make the same id on every rank from an address; the root listens there."""
    unique_id = _lib.UniqueId()
    code = _lib.library().cc_unique_id_from_address(
        byref(unique_id), address.encode(), port, secret.encode(), int(is_root)
    )
    _lib.check(code)
    return bytes(unique_id.bytes)


def dump_config() -> str:
    """Return what `Communicator.dump_config` would, as the environment of this process alone says."""
    return _lib.text_of(_lib.library().cc_dump_config, None)


_NO_COLOR = -1
_INIT_TIMEOUT_S = 120.0


class Communicator:
    """One rank of a group. Calls block; each takes an optional deadline in seconds."""

    def __init__(
        self,
        rank: int,
        size: int,
        unique_id: bytes,
        *,
        timeout_s: float | None = None,
        init_timeout_s: float | None = None,
        transport: Transport = Transport.AUTO,
        node_id: str | None = None,
        interface_name: str | None = None,
        address: str | None = None,
    ) -> None:
        """Join the group; returns on all ranks together."""
        if len(unique_id) != sizeof(_lib.UniqueId):
            raise CollectiveCoreError(Result.INVALID_ARGUMENT, "a unique id has 128 bytes")
        config = _config(
            timeout_s=timeout_s, init_timeout_s=init_timeout_s, transport=transport, node_id=node_id,
            interface_name=interface_name, address=address,
        )  # fmt: skip
        self._handle: c_void_p | None = c_void_p()
        self.rank = rank
        self.size = size
        identity = _lib.UniqueId.from_buffer_copy(unique_id)
        self._library = _lib.library()
        _lib.check(
            self._library.cc_comm_init_rank(byref(self._handle), size, byref(identity), rank, byref(config))
        )

    @classmethod
    def from_environment(cls, **settings: Any) -> Communicator:
        """Join as Open MPI, MPICH, torchrun or Slurm started this process; alone without any of them.

        `settings` are keywords of the constructor. What to set when ranks are on several hosts is in
        docs/environment.md.
        """
        wait_s = settings.get("init_timeout_s")
        rank, size, identity = meeting.by_environment(_INIT_TIMEOUT_S if wait_s is None else wait_s)
        return cls(rank, size, identity, **settings)

    @classmethod
    def from_store(cls, store: Any, rank: int, size: int, **settings: Any) -> Communicator:
        """Join through a torch Store of its own (a `PrefixStore`, when others use the same one)."""
        return cls(*meeting.by_store(store, rank, size), **settings)

    @classmethod
    def from_mpi(cls, comm: Any, **settings: Any) -> Communicator:
        """Join with the ranks of an mpi4py communicator; all of them call it."""
        return cls(*meeting.by_mpi(comm), **settings)

    def split(self, color: int | None, key: int = 0, **changes: Any) -> Communicator | None:
        """Make a communicator of the ranks that call it with this color, in the order of `key`, then rank.

        All ranks call it. With color None this rank joins none. `changes` are keywords of the constructor; what is
        not named stays as it is here.
        """
        config = _config(**changes)
        handle = c_void_p()
        wanted = _NO_COLOR if color is None else color
        own = self._live()
        code = self._library.cc_comm_split(own, wanted, key, byref(config), byref(handle))
        if Result(code) is not Result.SUCCESS and self.async_error() is Result.SUCCESS:
            _lib.check(code)  # only the part could not be made
        _lib.check(code, own)
        return Communicator._adopt(handle) if handle.value else None

    @classmethod
    def _adopt(cls, handle: c_void_p) -> Communicator:
        """Wrap a communicator that the library made."""
        made = cls.__new__(cls)
        made._library = _lib.library()
        made._handle = handle
        rank, size = c_int(), c_int()
        _lib.check(made._library.cc_comm_rank(handle, byref(rank)))
        _lib.check(made._library.cc_comm_size(handle, byref(size)))
        made.rank, made.size = rank.value, size.value
        return made

    def __enter__(self) -> Communicator:
        """Return itself; leaving the block destroys it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Destroy."""
        self.destroy()

    def all_reduce(self, send: Any, recv: Any, op: Redop = Redop.SUM, timeout_s: float | None = None) -> None:
        """Reduce `send` of all ranks into `recv` of each; they may be the same array."""
        source, target = as_buffer(send), as_buffer(recv)
        _same_type(source, target)
        _expect(target.count == source.count, "recv and send differ in length")
        self._call(
            "cc_all_reduce",
            source.address,
            target.address,
            source.count,
            int(source.dtype),
            int(op),
            timeout_s=timeout_s,
        )

    def topk_all_reduce(
        self,
        send: Any,
        recv: Any,
        residual: Residual | None,
        topk: Topk | None = None,
        op: Redop = Redop.SUM,
        timeout_s: float | None = None,
    ) -> None:
        """Reduce as `all_reduce` does, but send only the largest elements between nodes.

        What is not sent is in `residual`, which belongs to this one tensor, and is sent later; without one it is lost.
        float32, float16 and bfloat16; SUM and AVG.
        """
        source, target = as_buffer(send), as_buffer(recv)
        _same_type(source, target)
        _expect(target.count == source.count, "recv and send differ in length")
        self._call(
            "cc_topk_all_reduce",
            source.address, target.address, source.count, int(source.dtype), int(op),
            byref((topk or Topk()).as_options()),
            None if residual is None else residual.handle,
            timeout_s=timeout_s,
        )  # fmt: skip

    def broadcast(self, array: Any, root: int, timeout_s: float | None = None) -> None:
        """Copy `array` of the root into `array` of the others."""
        data = as_buffer(array)
        self._call(
            "cc_broadcast", data.address, data.address, data.count, int(data.dtype), root, timeout_s=timeout_s
        )

    def all_gather(self, send: Any, recv: Any, timeout_s: float | None = None) -> None:
        """Concatenate `send` of all ranks into `recv`, which is `size` times as long."""
        source, target = as_buffer(send), as_buffer(recv)
        _same_type(source, target)
        _expect(target.count == self.size * source.count, "recv must have size times the elements of send")
        self._call(
            "cc_all_gather",
            source.address,
            target.address,
            source.count,
            int(source.dtype),
            timeout_s=timeout_s,
        )

    def reduce_scatter(
        self, send: Any, recv: Any, op: Redop = Redop.SUM, timeout_s: float | None = None
    ) -> None:
        """Reduce `send`, which is `size` times as long as `recv`, and keep this rank's block."""
        source, target = as_buffer(send), as_buffer(recv)
        _same_type(source, target)
        _expect(source.count == self.size * target.count, "send must have size times the elements of recv")
        self._call(
            "cc_reduce_scatter",
            source.address,
            target.address,
            target.count,
            int(source.dtype),
            int(op),
            timeout_s=timeout_s,
        )

    def reduce(
        self, send: Any, recv: Any, root: int, op: Redop = Redop.SUM, timeout_s: float | None = None
    ) -> None:
        """Reduce `send` of all ranks into `recv` of the root; elsewhere `recv` is not read."""
        source = as_buffer(send)
        target = as_buffer(recv) if self.rank == root else source
        _same_type(source, target)
        _expect(target.count == source.count, "recv and send differ in length")
        self._call(
            "cc_reduce", source.address, target.address, source.count, int(source.dtype), int(op), root,
            timeout_s=timeout_s,
        )  # fmt: skip

    def gather(self, send: Any, recv: Any, root: int, timeout_s: float | None = None) -> None:
        """Concatenate `send` of all ranks into `recv` of the root; elsewhere `recv` is not read."""
        source = as_buffer(send)
        address = 0
        if self.rank == root:
            target = as_buffer(recv)
            _same_type(source, target)
            _expect(
                target.count == self.size * source.count, "recv must have size times the elements of send"
            )
            address = target.address
        self._call(
            "cc_gather", source.address, address, source.count, int(source.dtype), root, timeout_s=timeout_s
        )

    def scatter(self, send: Any, recv: Any, root: int, timeout_s: float | None = None) -> None:
        """Give each rank its block of `send` of the root; elsewhere `send` is not read."""
        target = as_buffer(recv)
        address = 0
        if self.rank == root:
            source = as_buffer(send)
            _same_type(source, target)
            _expect(
                source.count == self.size * target.count, "send must have size times the elements of recv"
            )
            address = source.address
        self._call(
            "cc_scatter", address, target.address, target.count, int(target.dtype), root, timeout_s=timeout_s
        )

    def all_to_all(
        self,
        send: Any,
        recv: Any,
        send_counts: Sequence[int] | None = None,
        recv_counts: Sequence[int] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Give rank r block r of `send`, and take its block; without counts, all blocks are equal."""
        source, target = as_buffer(send), as_buffer(recv)
        _same_type(source, target)
        if send_counts is None and recv_counts is None:
            _expect(
                target.count == source.count and source.count % self.size == 0,
                "send and recv must agree in length, a multiple of the number of ranks",
            )
            self._call(
                "cc_all_to_all", source.address, target.address, source.count // self.size, int(source.dtype),
                timeout_s=timeout_s,
            )  # fmt: skip
            return
        leaving = send_counts or [source.count // self.size] * self.size
        coming = recv_counts or [target.count // self.size] * self.size
        _expect(sum(leaving) == source.count, "the counts of send do not add up to its length")
        _expect(sum(coming) == target.count, "the counts of recv do not add up to its length")
        self._call(
            "cc_all_to_allv",
            source.address, *self._blocks(leaving), target.address, *self._blocks(coming), int(source.dtype),
            timeout_s=timeout_s,
        )  # fmt: skip

    def all_gatherv(
        self, send: Any, recv: Any, counts: Sequence[int], timeout_s: float | None = None
    ) -> None:
        """Concatenate `send` of all ranks, of `counts[r]` elements on rank r, into `recv` of each."""
        source, target = as_buffer(send), as_buffer(recv)
        _same_type(source, target)
        blocks = self._blocks(counts)
        _expect(source.count == counts[self.rank], "send has not the length that the counts say")
        _expect(target.count == sum(counts), "the counts do not add up to the length of recv")
        self._call(
            "cc_all_gatherv", source.address, target.address, *blocks, int(source.dtype), timeout_s=timeout_s
        )

    def _blocks(self, counts: Sequence[int]) -> tuple[ctypes.Array[c_size_t], ctypes.Array[c_size_t]]:
        _expect(len(counts) == self.size, "there must be one count per rank")
        _expect(all(count >= 0 for count in counts), "a count is negative")
        offsets = [sum(counts[:rank]) for rank in range(self.size)]
        return (c_size_t * self.size)(*counts), (c_size_t * self.size)(*offsets)

    def barrier(self, timeout_s: float | None = None) -> None:
        """Return when all ranks have called it."""
        self._call("cc_barrier", timeout_s=timeout_s)

    def send(self, array: Any, peer: int, *, tag: int = 0, timeout_s: float | None = None) -> None:
        """Send `array` to a rank, which must receive as many elements of the type with the same tag."""
        data = as_buffer(array)
        self._call("cc_send", data.address, data.count, int(data.dtype), peer, timeout_s=timeout_s, tag=tag)

    def recv(self, array: Any, peer: int, *, tag: int = 0, timeout_s: float | None = None) -> None:
        """Receive the next message of a rank; raises DESYNC if it is not as expected."""
        data = as_buffer(array)
        self._call("cc_recv", data.address, data.count, int(data.dtype), peer, timeout_s=timeout_s, tag=tag)

    def recv_any(self, array: Any, *, tag: int = 0, timeout_s: float | None = None) -> Source:
        """Receive the next message that any rank sent with that tag; `Source.rank` is who it was.

        In a group, the source is known when the transfer has ended and must be kept until then.
        """
        data = as_buffer(array)
        source = Source()
        self._call(
            "cc_recv_any", data.address, data.count, int(data.dtype), byref(source._cell),
            timeout_s=timeout_s, tag=tag,
        )  # fmt: skip
        return source

    def tuner_dump(self) -> str:
        """Return which algorithms the tuner took: a line for each kind of operation that has several."""
        handle = self._live()
        return _lib.text_of(self._library.cc_tuner_dump, handle)

    def dump_config(self) -> str:
        """Return all settings and where each came from: a line `NAME=value (source)` for each that is read."""
        return _lib.text_of(self._library.cc_dump_config, self._live())

    def retune(self) -> None:
        """Measure all algorithms again with the next operations; every rank calls it in the same place."""
        handle = self._live()
        _lib.check(self._library.cc_tuner_retune(handle), handle)

    def tuner_set(self, collective: str, size_bytes: int, dtype: Dtype, algorithm: str) -> None:
        """Let a collective take an algorithm for data of about that size; every rank calls it in the same place.

        `size_bytes` stands for all sizes up to the next power of two, `dtype` for all types that are reduced alike.
        """
        handle = self._live()
        names = collective.encode(), algorithm.encode()
        _lib.check(self._library.cc_tuner_set(handle, names[0], size_bytes, int(dtype), names[1]), handle)

    @contextmanager
    def group(self) -> Iterator[None]:
        """Move all sends and receives of the block at its end, together, so that none blocks another."""
        self.group_start()
        try:
            yield
        finally:
            self.group_end()

    def group_start(self) -> None:
        """Let the sends and receives of this thread be noted, not run, from here to `group_end`."""
        handle = self._live()
        _lib.check(self._library.cc_group_start(handle), handle)

    def group_end(self) -> None:
        """Return when all that was noted has ended."""
        handle = self._live()
        _lib.check(self._library.cc_group_end(handle), handle)

    def group_progress(self, wait_s: float, transfers: int) -> list[bool]:
        """Tell which of the group's transfers have ended, after one more has or `wait_s` have passed."""
        handle = self._live()
        finished = (c_ubyte * transfers)()
        code = self._library.cc_group_progress(handle, _milliseconds(wait_s), finished, transfers)
        _lib.check(code, handle)
        return [bool(one) for one in finished]

    def finalize(self, timeout_s: float | None = None) -> None:
        """Wait until all ranks have called it; afterwards it can only be destroyed, which nobody notices."""
        self._call("cc_comm_finalize", timeout_s=timeout_s)

    def abort(self) -> None:
        """End the running operation on all ranks with an error; from any thread."""
        _lib.check(self._library.cc_comm_abort(self._live()))

    def async_error(self) -> Result:
        """Return SUCCESS, IN_PROGRESS or the first error, without waiting."""
        state = c_int()
        _lib.check(self._library.cc_comm_get_async_error(self._live(), byref(state)))
        return Result(state.value)

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

    def destroy(self) -> None:
        """Say goodbye to the others and free everything; later calls raise. Idempotent."""
        handle, self._handle = self._handle, None
        if handle:
            _lib.check(self._library.cc_comm_destroy(handle))

    def _live(self) -> c_void_p:
        if not self._handle:
            raise CollectiveCoreError(Result.INVALID_USAGE, "the communicator was destroyed")
        return self._handle

    def _call(self, name: str, *arguments: Any, timeout_s: float | None, tag: int = 0) -> None:
        handle = self._live()
        options = _lib.OpOptions(size=sizeof(_lib.OpOptions), timeout_ms=_milliseconds(timeout_s), tag=tag)
        code = getattr(self._library, name)(*arguments, handle, byref(options))
        _lib.check(code, handle)


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


def _config(
    *,
    timeout_s: float | None = None,
    init_timeout_s: float | None = None,
    transport: Transport = Transport.AUTO,
    node_id: str | None = None,
    interface_name: str | None = None,
    address: str | None = None,
) -> _lib.Config:
    return _lib.Config(
        size=sizeof(_lib.Config),
        timeout_ms=_milliseconds(timeout_s),
        init_timeout_ms=_milliseconds(init_timeout_s),
        transport=int(transport),
        node_id=_encoded(node_id),
        interface_name=_encoded(interface_name),
        address=_encoded(address),
    )


def _milliseconds(seconds: float | None) -> int:
    """0 stands for the default, so the shortest deadline is a millisecond."""
    return 0 if seconds is None else max(1, int(seconds * 1000))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _expect(condition: bool, text: str) -> None:
    if not condition:
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, text)


def _same_type(one: Buffer, other: Buffer) -> None:
    _expect(one.dtype == other.dtype, f"element types differ: {one.dtype.name} and {other.dtype.name}")
