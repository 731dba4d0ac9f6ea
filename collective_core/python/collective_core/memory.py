"""Memory that the other ranks of a node reach directly: large all_reduce in it needs no copies between them."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_int, c_ubyte, c_uint64, c_void_p, sizeof
from types import TracebackType
from typing import Any

from collective_core import _lib
from collective_core.communicator import Buffer, Communicator, as_buffer
from collective_core.errors import CollectiveCoreError, Result
from collective_core.handle import milliseconds

# What is registered must not be freed, though its owner forgets it: by communicator, then by handle.
_kept: weakref.WeakKeyDictionary[Communicator, dict[int, Buffer]] = weakref.WeakKeyDictionary()


def allocate(size_bytes: int) -> ctypes.Array[c_ubyte]:
    """Return `size_bytes` zeros from cc_mem_alloc, page aligned, for `numpy.frombuffer` or `torch.frombuffer`.

    It is freed when no array of it is left and it is registered nowhere.
    """
    if size_bytes < 1:
        raise CollectiveCoreError(Result.INVALID_ARGUMENT, f"size_bytes is {size_bytes}, not at least 1")
    address = c_void_p()
    _lib.check(_lib.library().cc_mem_alloc(byref(address), size_bytes))
    assert address.value is not None
    memory = (c_ubyte * size_bytes).from_address(address.value)
    # Not at exit: arrays of it may be looked at until the very end, and the kernel frees it anyway.
    weakref.finalize(memory, _lib.library().cc_mem_free, address).atexit = False
    return memory


class Registration:
    """cc_mem_register of an array; a context manager. All ranks make and close the same ones in the same order."""

    def __init__(self, comm: Communicator, array: Any, timeout_s: float | None = None) -> None:
        """Register this rank's memory, of any size; `direct` says whether all ranks can reach each other's."""
        buffer = as_buffer(array)
        size_bytes = buffer.count * _lib.library().cc_dtype_size(int(buffer.dtype))
        handle, direct = c_uint64(), c_int()
        options = _lib.OpOptions(size=sizeof(_lib.OpOptions), timeout_ms=milliseconds(timeout_s))
        _lib.check(
            _lib.library().cc_mem_register(
                comm._live(), buffer.address, size_bytes, byref(handle), byref(direct), byref(options)
            )
        )
        self.direct = bool(direct.value)
        self._comm = comm
        self._handle: int | None = handle.value
        _kept.setdefault(comm, {})[handle.value] = buffer

    def __enter__(self) -> Registration:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, unless an error is on its way, which the other ranks do not wait for."""
        if error is None:
            self.close()

    def close(self, timeout_s: float | None = None) -> None:
        """Deregister; all ranks call it. Idempotent. A communicator that is destroyed does it by itself."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if self._comm._handle:
            options = _lib.OpOptions(size=sizeof(_lib.OpOptions), timeout_ms=milliseconds(timeout_s))
            live = self._comm._live()
            _lib.check(_lib.library().cc_mem_deregister(live, handle, byref(options)))
        _kept[self._comm].pop(handle)
