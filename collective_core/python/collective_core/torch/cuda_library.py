"""libcollective_core_cuda.so through ctypes: collectives on device memory, ordered by CUDA streams."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
    sizeof,
)
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any, TypeAlias

from collective_core import _lib
from collective_core.communicator import Communicator
from collective_core.enums import CudaPath
from collective_core.errors import CollectiveCoreError, Result
from collective_core.handle import milliseconds
from collective_core.locations import library_path

LIBRARY_NAME = "libcollective_core_cuda.so"
_DESCRIPTION_BYTES = 8192
_NOTICE_BYTES = 256


class _Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("staging_bytes", c_int64),
        ("first_epoch", c_uint32),
        ("path", c_int32),
        ("timeout_ms", c_int64),
    ]


class _Transfer(ctypes.Structure):
    _fields_ = [("send", c_void_p), ("recv", c_void_p), ("bytes", c_size_t), ("peer", c_int)]


# cc_cuda_call: collective, send, recv, count, dtype, op, root, stream, checks. A ctypes.Structure takes 2 us more.
_CALL = Struct("@iPPNiiiPi0P")

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST = range(4)  # cc_cuda_collective

# Set in tickets of work that is being captured in a CUDA graph.
CAPTURED = 1 << 63


@dataclass(frozen=True, slots=True)
class Move:
    """One send (to `peer`) or one receive (from `peer`) of an exchange, in device memory."""

    address: int
    size_bytes: int
    peer: int
    is_send: bool


# What one call of the library carries out, collectives one after the other or one exchange: whether it is an exchange,
# an array, and the length of that.
Batch: TypeAlias = tuple[bool, Any, int]


def call(number: int, send: int, recv: int, count: int, dtype: int, redop: int = 0, root: int = 0) -> bytes:
    """Return the cc_cuda_call of a collective, with the fields of the header; `number` is its cc_cuda_collective."""
    return _CALL.pack(number, send, recv, count, dtype, redop, root, 0, 0)


def collective(one: bytes) -> Batch:
    """Return the batch of a single collective."""
    return False, one, 1


def collectives(*calls: bytes) -> Batch:
    """Return the batch of several collectives."""
    return False, b"".join(calls), len(calls)


def transfers(moves: Sequence[Move]) -> Batch:
    """Return the batch of sends and receives that are one operation. Empty ones are left out on both sides."""
    wanted = [move for move in moves if move.size_bytes]
    array = (_Transfer * len(wanted))(
        *(
            _Transfer(
                send=move.address if move.is_send else None,
                recv=None if move.is_send else move.address,
                bytes=move.size_bytes,
                peer=move.peer,
            )
            for move in wanted
        )
    )
    return True, array, len(wanted)


# Parameters in the order of the header; `stream` is a cudaStream_t.
_SIGNATURES: dict[str, tuple[object, ...]] = {
    "cc_cuda_create": (c_void_p, c_void_p, c_void_p),
    "cc_cuda_get_path": (c_void_p, c_void_p),
    "cc_cuda_describe": (c_void_p, c_char_p, c_size_t),
    "cc_cuda_notice": (c_void_p, c_char_p, c_size_t),
    "cc_cuda_launch": (c_void_p, c_void_p, c_size_t, c_void_p, c_void_p),
    "cc_cuda_launch_exchange": (c_void_p, c_void_p, c_size_t, c_void_p, c_void_p),
    "cc_cuda_get_stream": (c_void_p, POINTER(c_void_p)),
    "cc_cuda_follow": (c_void_p, c_void_p),
    "cc_cuda_mark": (c_void_p, c_void_p, POINTER(c_uint64)),
    "cc_cuda_ticket_wait": (c_void_p, c_uint64, c_void_p),
    "cc_cuda_ticket_query": (c_void_p, c_uint64, POINTER(c_int)),
    "cc_cuda_poll": (c_void_p, c_void_p),
    "cc_cuda_get_failed_word": (c_void_p, POINTER(POINTER(c_uint64))),
    "cc_cuda_wait": (c_void_p, c_int64),
    "cc_cuda_abort": (c_void_p,),
    "cc_cuda_destroy": (c_void_p,),
}


@cache
def _loaded() -> ctypes.CDLL:
    _lib.library()  # which it needs
    loaded = ctypes.CDLL(str(library_path().with_name(LIBRARY_NAME)))
    loaded.cc_cuda_last_error.restype = c_char_p
    return loaded


def declared(signatures: Mapping[str, Sequence[object]]) -> ctypes.CDLL:
    """Return the library with the parameters of these functions, by name; raises OSError or AttributeError.

    It is loaded once. Each module declares the functions that it calls; all return a cc_result.
    """
    loaded = _loaded()
    for name, arguments in signatures.items():
        function = getattr(loaded, name)
        function.argtypes = list(arguments)
        function.restype = c_int
    return loaded


@cache
def library() -> ctypes.CDLL:
    """Return the library with the functions of this module; raises OSError or AttributeError."""
    return declared(_SIGNATURES)


def check(code: int) -> None:
    """Raise a failed call's result with its text."""
    if code:
        text: bytes = _loaded().cc_cuda_last_error()
        raise CollectiveCoreError(Result(code), text.decode(errors="replace"))


class CudaHandle:
    """A cc_cuda: the ranks of a communicator with a device each. Calls queue work on a stream and return."""

    def __init__(self, communicator: Communicator, timeout_s: float) -> None:
        """Meet the other ranks, for the current device. `timeout_s` is the deadline of waits on the device."""
        self.rank, self.size = communicator.rank, communicator.size
        self._library = library()
        self._handle: c_void_p | None = c_void_p()
        options = _Options(size=sizeof(_Options), timeout_ms=milliseconds(timeout_s))
        check(self._library.cc_cuda_create(communicator._live(), byref(options), byref(self._handle)))
        word = POINTER(c_uint64)()
        check(self._library.cc_cuda_get_failed_word(self._handle, byref(word)))
        self._failed_word = word.contents  # in memory of the handle
        stream = c_void_p()
        check(self._library.cc_cuda_get_stream(self._handle, byref(stream)))
        self.stream = stream.value or 0  # of asynchronous calls, a cudaStream_t
        self._launches = self._library.cc_cuda_launch, self._library.cc_cuda_launch_exchange

    def path(self) -> CudaPath:
        """Return how the ranks reach each other."""
        path = c_int()
        check(self._library.cc_cuda_get_path(self._live(), byref(path)))
        return CudaPath(path.value)

    def describe(self) -> str:
        """Return the path, its reason, the links and how peers reach buffers, in one line."""
        text = ctypes.create_string_buffer(_DESCRIPTION_BYTES)
        check(self._library.cc_cuda_describe(self._live(), text, _DESCRIPTION_BYTES))
        return text.value.decode(errors="replace")

    def notice(self) -> str:
        """Return why a rank stages memory that peers could map, the same text on all ranks; "" if none does."""
        text = ctypes.create_string_buffer(_NOTICE_BYTES)
        check(self._library.cc_cuda_notice(self._live(), text, _NOTICE_BYTES))
        return text.value.decode(errors="replace")

    def launch(self, batch: Batch, stream: int) -> None:
        """Queue a batch on a stream (a cudaStream_t)."""
        is_exchange, items, count = batch
        check(self._launches[is_exchange](self._live(), items, count, stream, None))

    def launch_async(self, batch: Batch, stream: int) -> int:
        """Queue a batch on the handle's own stream, after what a stream has queued; return the ticket of its end."""
        is_exchange, items, count = batch
        ticket = c_uint64()
        check(self._launches[is_exchange](self._live(), items, count, stream, byref(ticket)))
        return ticket.value

    def follow(self, stream: int) -> None:
        """Let the handle's own stream wait for what a stream has queued."""
        check(self._library.cc_cuda_follow(self._live(), stream))

    def mark(self, stream: int) -> int:
        """Return a ticket for what a stream has queued."""
        ticket = c_uint64()
        check(self._library.cc_cuda_mark(self._live(), stream, byref(ticket)))
        return ticket.value

    def let_wait(self, ticket: int, stream: int) -> None:
        """Let a stream wait for what a ticket stands for. After destroy() that has ended."""
        if self._handle is not None:
            check(self._library.cc_cuda_ticket_wait(self._handle, ticket, stream))

    def has_ended(self, ticket: int) -> bool:
        """Return whether what a ticket stands for has ended. After destroy() it has; raises for one of a capture."""
        if self._handle is None:
            return True
        ended = c_int()
        check(self._library.cc_cuda_ticket_query(self._handle, ticket, byref(ended)))
        return bool(ended.value)

    def poll(self) -> None:
        """Raise the handle's first error, if there is one. Does not wait: without one, it is one load of a word."""
        handle = self._handle
        if handle is None or not self._failed_word.value:
            return
        text = c_char_p()
        code = self._library.cc_cuda_poll(handle, byref(text))
        if code != Result.SUCCESS:
            raise CollectiveCoreError(Result(code), (text.value or b"").decode(errors="replace"))

    def wait(self, timeout_s: float) -> None:
        """Return when the last operation of this rank has ended; raises TIMEOUT, which names the missing ranks."""
        check(self._library.cc_cuda_wait(self._live(), milliseconds(timeout_s)))

    def abort(self) -> None:
        """End all waits of this rank on the device. From any thread."""
        if self._handle is not None:
            check(self._library.cc_cuda_abort(self._handle))

    def destroy(self) -> None:
        """Free everything; no rank may be in an operation. Idempotent."""
        handle, self._handle = self._handle, None
        if handle is not None:
            check(self._library.cc_cuda_destroy(handle))

    def _live(self) -> c_void_p:
        if self._handle is None:
            raise CollectiveCoreError(Result.INVALID_USAGE, "the process group was destroyed")
        return self._handle
