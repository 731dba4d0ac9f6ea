"""all_reduce through staging buffers, chunk by chunk: copies in, reduction and copies back at the same time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_void_p, sizeof
from types import TracebackType
from typing import Any, Protocol

from collective_core import _lib
from collective_core.communicator import Communicator, Redop, as_buffer
from collective_core.errors import CollectiveCoreError, Result
from collective_core.handle import milliseconds


class CopyEngine(Protocol):
    """Copies between a device and the host, by address; called on the thread of the run. An exception ends the run."""

    def start_to_host(self, host: int, device: int, size_bytes: int) -> int:
        """Start a copy from the device; return its number."""

    def start_to_device(self, device: int, host: int, size_bytes: int) -> int:
        """Start a copy to the device; return its number."""

    def poll(self, copy: int) -> bool:
        """Return whether a copy has ended; it is not polled again after that."""


class CpuReduce:
    """cc_cpu_reduce. All ranks take chunks of the same size."""

    def __init__(
        self,
        comm: Communicator,
        *,
        chunk_bytes: int | None = None,
        chunks: int | None = None,
        engine: CopyEngine | None = None,
    ) -> None:
        """Allocate `chunks` (3) buffers of `chunk_bytes` (CCORE_CPU_REDUCE_CHUNK_BYTES, else 4 MiB).

        Without an engine, arrays are host memory, which a thread of this handle copies. With one they are Buffers
        with addresses that the engine understands.
        """
        for name, value in (("chunk_bytes", chunk_bytes), ("chunks", chunks)):
            if value is not None and value < 1:
                raise CollectiveCoreError(Result.INVALID_ARGUMENT, f"{name} is {value}, not at least 1")
        self._library = _lib.library()
        self._comm = comm
        self._handle: c_void_p | None = c_void_p()
        options = _lib.CpuReduceOptions(
            size=sizeof(_lib.CpuReduceOptions), chunk_bytes=chunk_bytes or 0, chunks=chunks or 0
        )
        self._callbacks = None if engine is None else _callbacks(engine)  # must live as long as the handle
        _lib.check(
            self._library.cc_cpu_reduce_create(
                comm._live(),
                byref(options),
                None if self._callbacks is None else byref(self._callbacks),
                byref(self._handle),
            )
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


def _callbacks(engine: CopyEngine) -> _lib.CopyEngine:
    """Return the engine for C: no exception passes through it, its text does."""

    def guarded(call: Callable[[], int], text: Any, text_bytes: int) -> int:
        try:
            return call()
        except Exception as error:  # noqa: BLE001  # whatever it is, it ends the run with this text
            message = f"{type(error).__name__}: {error}".encode()[: text_bytes - 1]
            ctypes.memmove(text, message + b"\0", len(message) + 1)
            return Result.SYSTEM

    def starter(start: Callable[[int, int, int], int]) -> Callable[..., int]:
        def callback(
            _: object, target: int, source: int, size_bytes: int, copy: Any, text: Any, text_bytes: int
        ) -> int:
            def call() -> int:
                copy[0] = start(target, source, size_bytes)
                return Result.SUCCESS

            return guarded(call, text, text_bytes)

        return callback

    def poll(_: object, copy: int, text: Any, text_bytes: int) -> int:
        return guarded(lambda: Result.SUCCESS if engine.poll(copy) else Result.IN_PROGRESS, text, text_bytes)

    return _lib.CopyEngine(
        size=sizeof(_lib.CopyEngine),
        start_to_host=_lib.START_COPY(starter(engine.start_to_host)),
        start_to_device=_lib.START_COPY(starter(engine.start_to_device)),
        poll=_lib.POLL_COPY(poll),
    )
