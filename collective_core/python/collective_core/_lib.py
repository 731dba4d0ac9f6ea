"""The C ABI through ctypes: types, signatures, and codes turned into exceptions. Nothing else calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import (
    POINTER,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_ubyte,
    c_uint64,
    c_void_p,
)
from functools import cache
from typing import TypeVar

from collective_core.errors import CollectiveCoreError, LibraryNotFoundError, Result
from collective_core.locations import HINT, library_path


class UniqueId(ctypes.Structure):
    """cc_unique_id."""

    _fields_ = [("bytes", c_ubyte * 128)]


class Config(ctypes.Structure):
    """cc_config; create with `Config(size=ctypes.sizeof(Config))`."""

    _fields_ = [
        ("size", c_size_t),
        ("timeout_ms", c_int64),
        ("init_timeout_ms", c_int64),
        ("transport", c_int32),
        ("reserved", c_int32),
        ("node_id", c_char_p),
        ("interface_name", c_char_p),
        ("address", c_char_p),
    ]


class OpOptions(ctypes.Structure):
    """cc_op_options."""

    _fields_ = [
        ("size", c_size_t),
        ("timeout_ms", c_int64),
        ("tag", c_int32),
        ("memory", c_int32),
        ("stream", c_void_p),
    ]


class TopkOptions(ctypes.Structure):
    """cc_topk_options."""

    _fields_ = [
        ("size", c_size_t),
        ("ratio", c_double),
        ("threshold_bytes", c_int64),
        ("method", c_int32),
        ("values", c_int32),
        ("samplings", c_int32),
        ("reserved", c_int32),
    ]


class TopkPlan(ctypes.Structure):
    """cc_topk_plan."""

    _fields_ = [
        ("size", c_size_t),
        ("compressed", c_int32),
        ("method", c_int32),
        ("values", c_int32),
        ("samplings", c_int32),
        ("nodes", c_int32),
        ("shards", c_int32),
        ("shard_begin", c_size_t),
        ("shard_count", c_size_t),
        ("kept", c_size_t),
    ]


class CpuReduceOptions(ctypes.Structure):
    """cc_cpu_reduce_options."""

    _fields_ = [("size", c_size_t), ("chunk_bytes", c_int64), ("chunks", c_int32), ("reserved", c_int32)]


START_COPY = ctypes.CFUNCTYPE(
    c_int, c_void_p, c_void_p, c_void_p, c_size_t, POINTER(c_uint64), POINTER(c_char), c_size_t
)
POLL_COPY = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, POINTER(c_char), c_size_t)


class CopyEngine(ctypes.Structure):
    """cc_copy_engine."""

    _fields_ = [
        ("size", c_size_t),
        ("context", c_void_p),
        ("start_to_host", START_COPY),
        ("start_to_device", START_COPY),
        ("poll", POLL_COPY),
    ]


class ResidualInfo(ctypes.Structure):
    """cc_residual_info."""

    _fields_ = [
        ("size", c_size_t),
        ("count", c_size_t),
        ("dtype", c_int32),
        ("reserved", c_int32),
        ("shard_begin", c_size_t),
        ("shard_count", c_size_t),
        ("steps", c_uint64),
        ("values", POINTER(c_float)),
    ]


class PeerInfo(ctypes.Structure):
    """cc_peer_info."""

    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int32),
        ("node", c_int32),
        ("local_rank", c_int32),
        ("local_size", c_int32),
        ("pid", c_int64),
        ("payload_bytes_sent", c_uint64),
        ("payload_bytes_received", c_uint64),
        ("host", c_char * 256),
        ("address", c_char * 64),
        ("transport", c_char * 16),
    ]


class OpStats(ctypes.Structure):
    """cc_op_stats."""

    _fields_ = [
        ("size", c_size_t),
        ("calls", c_uint64),
        ("errors", c_uint64),
        ("bytes", c_uint64),
        ("total_ns", c_uint64),
        ("longest_ns", c_uint64),
    ]


class Setting(ctypes.Structure):
    """cc_setting."""

    _fields_ = [
        ("size", c_size_t),
        ("source", c_int32),
        ("secret", c_int32),
        ("name", c_char * 64),
        ("spelled", c_char * 64),
        ("value", c_char * 512),
        ("note", c_char * 256),
    ]


class Limits(ctypes.Structure):
    """cc_limits."""

    _fields_ = [
        ("size", c_size_t),
        ("timeout_ms", c_int64),
        ("least_2d_bytes", c_int64),
        ("most_2d_bytes", c_int64),
        ("least_device_2d_bytes", c_int64 * 4),
    ]


class Description(ctypes.Structure):
    """cc_description."""

    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
        ("reason", c_int32),
        ("reserved", c_int32),
        ("algorithm", c_char * 16),
        ("path", c_char * 16),
        ("transport", c_char * 24),
    ]


class Count(ctypes.Structure):
    """cc_count."""

    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
        ("calls", c_uint64),
        ("errors", c_uint64),
        ("total_ns", c_uint64),
        ("operation", c_int32),
        ("rounded", c_int32),
        ("algorithm", c_char * 16),
    ]


class Launch(ctypes.Structure):
    """cc_launch."""

    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int32),
        ("nranks", c_int32),
        ("local_size", c_int32),
        ("reserved", c_int32),
        ("launcher", c_char * 16),
    ]


class TraceEntry(ctypes.Structure):
    """cc_trace_entry."""

    _fields_ = [
        ("size", c_size_t),
        ("sequence", c_uint64),
        ("count", c_uint64),
        ("start_ns", c_int64),
        ("end_ns", c_int64),
        ("operation", c_int32),
        ("dtype", c_int32),
        ("redop", c_int32),
        ("root", c_int32),
        ("tag", c_int32),
        ("result", c_int32),
        ("waits_for", c_int32),
        ("reserved", c_int32),
        ("algorithm", c_char * 16),
    ]


TRACE_ENTRIES = 64


_SIGNATURES: dict[str, tuple[object, ...]] = {
    "cc_get_unique_id": (POINTER(UniqueId),),
    "cc_unique_id_from_address": (POINTER(UniqueId), c_char_p, c_int, c_char_p, c_int),
    "cc_get_launch": (POINTER(Launch),),
    "cc_comm_init": (POINTER(c_void_p), POINTER(Config)),
    "cc_comm_init_rank": (POINTER(c_void_p), c_int, POINTER(UniqueId), c_int, POINTER(Config)),
    "cc_comm_destroy": (c_void_p,),
    "cc_comm_split": (c_void_p, c_int, c_int, POINTER(Config), POINTER(c_void_p)),
    "cc_comm_finalize": (c_void_p, POINTER(OpOptions)),
    "cc_comm_abort": (c_void_p,),
    "cc_comm_get_async_error": (c_void_p, POINTER(c_int)),
    "cc_comm_rank": (c_void_p, POINTER(c_int)),
    "cc_comm_size": (c_void_p, POINTER(c_int)),
    "cc_comm_peer_info": (c_void_p, c_int, POINTER(PeerInfo)),
    "cc_comm_stats": (c_void_p, c_int, POINTER(OpStats)),
    "cc_dump_config": (c_void_p, c_char_p, c_size_t, POINTER(c_size_t)),
    "cc_get_settings": (c_void_p, POINTER(Setting), c_size_t, POINTER(c_size_t)),
    "cc_get_limits": (c_void_p, POINTER(Limits)),
    "cc_describe": (c_void_p, c_int, c_size_t, c_int, c_int, POINTER(Description)),
    "cc_comm_counts": (c_void_p, POINTER(Count), c_size_t, POINTER(c_size_t)),
    "cc_describe_gpu": (c_char_p, c_char_p, c_size_t, POINTER(c_size_t)),
    "cc_comm_trace": (c_void_p, POINTER(TraceEntry), c_size_t, POINTER(c_size_t)),
    "cc_all_reduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(OpOptions)),
    "cc_broadcast": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(OpOptions)),
    "cc_all_gather": (c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(OpOptions)),
    "cc_reduce_scatter": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(OpOptions)),
    "cc_reduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(OpOptions)),
    "cc_gather": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(OpOptions)),
    "cc_scatter": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(OpOptions)),
    "cc_all_to_all": (c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(OpOptions)),
    "cc_all_to_allv": (
        *(c_void_p, POINTER(c_size_t), POINTER(c_size_t)) * 2,
        c_int,
        c_void_p,
        POINTER(OpOptions),
    ),
    "cc_all_gatherv": (
        c_void_p,
        c_void_p,
        POINTER(c_size_t),
        POINTER(c_size_t),
        c_int,
        c_void_p,
        POINTER(OpOptions),
    ),
    "cc_barrier": (c_void_p, POINTER(OpOptions)),
    "cc_residual_create": (POINTER(c_void_p),),
    "cc_residual_reset": (c_void_p,),
    "cc_residual_get_info": (c_void_p, POINTER(ResidualInfo)),
    "cc_residual_destroy": (c_void_p,),
    "cc_topk_all_reduce": (
        *(c_void_p, c_void_p, c_size_t, c_int, c_int),
        POINTER(TopkOptions),
        *(c_void_p, c_void_p),
        POINTER(OpOptions),
    ),
    "cc_topk_get_plan": (c_void_p, c_size_t, c_int, POINTER(TopkOptions), POINTER(TopkPlan)),
    "cc_cpu_reduce_create": (c_void_p, POINTER(CpuReduceOptions), POINTER(CopyEngine), POINTER(c_void_p)),
    "cc_cpu_reduce_run": (c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, POINTER(OpOptions)),
    "cc_cpu_reduce_destroy": (c_void_p,),
    "cc_mem_alloc": (POINTER(c_void_p), c_size_t),
    "cc_mem_free": (c_void_p,),
    "cc_mem_register": (
        *(c_void_p, c_void_p, c_size_t),
        *(POINTER(c_uint64), POINTER(c_int), POINTER(OpOptions)),
    ),
    "cc_mem_deregister": (c_void_p, c_uint64, POINTER(OpOptions)),
    "cc_send": (c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(OpOptions)),
    "cc_recv": (c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(OpOptions)),
    "cc_recv_any": (c_void_p, c_size_t, c_int, POINTER(c_int), c_void_p, POINTER(OpOptions)),
    "cc_tuner_dump": (c_void_p, c_char_p, c_size_t, POINTER(c_size_t)),
    "cc_tuner_retune": (c_void_p,),
    "cc_tuner_set": (c_void_p, c_char_p, c_size_t, c_int, c_char_p),
    "cc_group_start": (c_void_p,),
    "cc_group_end": (c_void_p,),
    "cc_group_progress": (c_void_p, c_int64, POINTER(c_ubyte), c_size_t),
}


@cache
def library() -> ctypes.CDLL:
    """Load the library once; raises LibraryNotFoundError. ctypes releases the GIL during its calls."""
    path = library_path()
    try:
        loaded = ctypes.CDLL(str(path))
        for name, arguments in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.argtypes = list(arguments)
            function.restype = c_int
        loaded.cc_version_string.restype = c_char_p
        loaded.cc_dtype_size.argtypes = [c_int]
        loaded.cc_dtype_size.restype = c_size_t
        loaded.cc_last_error.argtypes = [c_void_p]
        loaded.cc_last_error.restype = c_char_p
    except (OSError, AttributeError) as error:  # no library, or that of another version
        raise LibraryNotFoundError(f"the library at {path} cannot be used: {error}: {HINT}") from error
    return loaded


def version() -> str:
    """Return the version of the loaded library."""
    text: bytes = library().cc_version_string()
    return text.decode()


def check(code: int) -> None:
    """Raise CollectiveCoreError unless `code` is success; call on the thread that made the failed call.

    The text is that call's own. The communicator is not asked: another thread may have destroyed it meanwhile.
    """
    if code == Result.SUCCESS:
        return
    text: bytes = library().cc_last_error(None)
    raise CollectiveCoreError(Result(code), text.decode(errors="replace"))


def text_of(function: Callable[..., int], subject: c_void_p | bytes | None) -> str:
    """Return the text of a function with the parameters (subject, text, size, needed)."""
    needed = c_size_t()
    check(function(subject, None, 0, byref(needed)))
    text = ctypes.create_string_buffer(needed.value)
    check(function(subject, text, needed.value, byref(needed)))
    return text.value.decode(errors="replace")


_Entry = TypeVar("_Entry", bound=ctypes.Structure)


def entries_of(function: Callable[..., int], subject: c_void_p | None, entry: type[_Entry]) -> list[_Entry]:
    """Return all entries of a function with the parameters (subject, entries, entry_bytes, count)."""
    found = c_size_t()
    check(function(subject, None, ctypes.sizeof(entry), byref(found)))
    while True:
        # There may be more by now; then all are requested again.
        room = found.value
        entries = (entry * room)()
        found = c_size_t(room)
        check(function(subject, entries, ctypes.sizeof(entry), byref(found)))
        if found.value <= room:
            return list(entries[: found.value])
