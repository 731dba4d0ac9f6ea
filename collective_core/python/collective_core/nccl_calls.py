"""NCCL through ctypes: the calls that nccl_tune times, without the time that torch adds to each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from collective_core.errors import LibraryNotFoundError

FLOAT32, SUM = 7, 0
"""NCCL's numbers of a type and an operator."""


class UniqueId(ctypes.Structure):
    """ncclUniqueId, which is passed by value."""

    _fields_ = (("internal", ctypes.c_char * 128),)


class NcclError(RuntimeError):
    """NCCL refused a call."""


class NcclComm:
    """A communicator of the NCCL that torch has loaded into this process."""

    def __init__(self, rank: int, size: int, share: Callable[[bytes], bytes]) -> None:
        """``share`` returns rank 0's bytes on every rank."""
        try:
            self._library = ctypes.CDLL("libnccl.so.2")  # by its soname: the one that is loaded
        except OSError as error:
            raise LibraryNotFoundError(
                f"torch brought no NCCL: {error}; install a torch with CUDA"
            ) from error
        self._library.ncclGetErrorString.restype = ctypes.c_char_p
        self._library.ncclCommInitRank.argtypes = (
            ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int,
        )  # fmt: skip
        identity = UniqueId()
        if rank == 0:
            self._call("ncclGetUniqueId", ctypes.byref(identity))
        identity = UniqueId.from_buffer_copy(share(bytes(identity)))
        self._comm = ctypes.c_void_p()
        self._call("ncclCommInitRank", ctypes.byref(self._comm), size, identity, rank)

    def _call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._library, name)(*arguments)
        if result != 0:
            raise NcclError(f"{name}: {self._library.ncclGetErrorString(result).decode()}")

    def operation(self, collective: str, send: Any, receive: Any, stream: Any) -> Callable[[], None]:
        """Return a function that starts the collective of two CUDA tensors of float32 on a stream."""
        function = {
            "broadcast": "ncclBroadcast", "reduce": "ncclReduce", "all_gather": "ncclAllGather",
            "reduce_scatter": "ncclReduceScatter", "all_reduce": "ncclAllReduce",
        }[collective]  # fmt: skip
        counted = receive if collective == "reduce_scatter" else send
        arguments: list[Any] = [
            ctypes.c_void_p(send.data_ptr()), ctypes.c_void_p(receive.data_ptr()),
            ctypes.c_size_t(counted.numel()), ctypes.c_int(FLOAT32),
        ]  # fmt: skip
        if collective in ("reduce", "reduce_scatter", "all_reduce"):
            arguments.append(ctypes.c_int(SUM))
        if collective in ("reduce", "broadcast"):
            arguments.append(ctypes.c_int(0))  # root
        arguments += [self._comm, ctypes.c_void_p(stream)]
        call = getattr(self._library, function)

        def run() -> None:
            if call(*arguments) != 0:
                raise NcclError(f"{function} failed: its log with NCCL_DEBUG=WARN shows why")

        return run

    def destroy(self) -> None:
        """End the communicator."""
        self._call("ncclCommDestroy", self._comm)
