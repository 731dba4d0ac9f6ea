"""all_reduce through staging buffers, chunk by chunk: copies in, reduction and copies back at the same time."""

from __future__ import annotations

from ctypes import byref, c_void_p, sizeof
from types import TracebackType
from typing import Any

from collective_core import _lib
from collective_core.communicator import Communicator, Redop, as_buffer
from collective_core.errors import CollectiveCoreError, Result
from collective_core.handle import milliseconds


class CpuReduce:
    """cc_cpu_reduce on host memory, which a thread of its own copies. All ranks take chunks of the same size."""

    def __init__(
        self, comm: Communicator, *, chunk_bytes: int | None = None, chunks: int | None = None
    ) -> None:
        """Allocate `chunks` (3) buffers of `chunk_bytes` (CCORE_CPU_REDUCE_CHUNK_BYTES, else 4 MiB)."""
        for name, value in (("chunk_bytes", chunk_bytes), ("chunks", chunks)):
            if value is not None and value < 1:
                raise CollectiveCoreError(Result.INVALID_ARGUMENT, f"{name} is {value}, not at least 1")
        self._library = _lib.library()
        self._comm = comm
        self._handle: c_void_p | None = c_void_p()
        options = _lib.CpuReduceOptions(
            size=sizeof(_lib.CpuReduceOptions), chunk_bytes=chunk_bytes or 0, chunks=chunks or 0
        )
        _lib.check(
            self._library.cc_cpu_reduce_create(comm._live(), byref(options), None, byref(self._handle))
        )

    def __enter__(self) -> CpuReduce:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Destroy it."""
        self.destroy()

    def run(self, send: Any, recv: Any = None, op: Redop = Redop.SUM, timeout_s: float | None = None) -> None:
        """Reduce `send` of all ranks into `recv` of each, or in place; the same call on all ranks."""
        if self._handle is None:
            raise CollectiveCoreError(Result.INVALID_USAGE, "the CpuReduce was destroyed")
        source = as_buffer(send)
        target = as_buffer(send if recv is None else recv, written=True)
        if source.dtype != target.dtype or source.count != target.count:
            raise CollectiveCoreError(
                Result.INVALID_ARGUMENT,
                f"send is {source.count} of {source.dtype.name}, recv is {target.count} of {target.dtype.name}",
            )
        options = _lib.OpOptions(size=sizeof(_lib.OpOptions), timeout_ms=milliseconds(timeout_s))
        self._comm._live()
        code = self._library.cc_cpu_reduce_run(
            self._handle, source.address, target.address, source.count, int(source.dtype), int(op),
            byref(options),
        )  # fmt: skip
        _lib.check(code)

    def destroy(self) -> None:
        """Free its memory and end its thread, unless it runs; later calls raise. Idempotent."""
        if self._handle:
            _lib.check(self._library.cc_cpu_reduce_destroy(self._handle))
        self._handle = None
