"""A communicator with Python manners: context manager, seconds, exceptions, arrays."""

from __future__ import annotations

import ctypes
import math
from ctypes import byref, c_int, c_void_p, sizeof
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from collective_core import _lib
from collective_core.errors import CollectiveCoreError, Result


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


@dataclass(frozen=True, slots=True)
class Buffer:
    """Host memory: address, elements and their type. `owner` keeps the memory alive."""

    address: int
    count: int
    dtype: Dtype
    owner: object = None


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
        config = _lib.Config(
            size=sizeof(_lib.Config),
            timeout_ms=_milliseconds(timeout_s),
            init_timeout_ms=_milliseconds(init_timeout_s),
            transport=int(transport),
            node_id=_encoded(node_id),
            interface_name=_encoded(interface_name),
            address=_encoded(address),
        )
        self._handle: c_void_p | None = c_void_p()
        self.rank = rank
        self.size = size
        identity = _lib.UniqueId.from_buffer_copy(unique_id)
        self._library = _lib.library()
        _lib.check(
            self._library.cc_comm_init_rank(byref(self._handle), size, byref(identity), rank, byref(config))
        )

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

    def barrier(self, timeout_s: float | None = None) -> None:
        """Return when all ranks have called it."""
        self._call("cc_barrier", timeout_s=timeout_s)

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

    def destroy(self) -> None:
        """Say goodbye to the others and free everything; later calls raise. Idempotent."""
        handle, self._handle = self._handle, None
        if handle:
            _lib.check(self._library.cc_comm_destroy(handle))

    def _live(self) -> c_void_p:
        if not self._handle:
            raise CollectiveCoreError(Result.INVALID_USAGE, "the communicator was destroyed")
        return self._handle

    def _call(self, name: str, *arguments: int, timeout_s: float | None) -> None:
        handle = self._live()
        options = _lib.OpOptions(size=sizeof(_lib.OpOptions), timeout_ms=_milliseconds(timeout_s))
        code = getattr(self._library, name)(*arguments, handle, byref(options))
        _lib.check(code, handle)


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
