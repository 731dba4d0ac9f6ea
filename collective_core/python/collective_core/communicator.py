"""A communicator with Python manners: context manager, seconds, exceptions, arrays."""

from __future__ import annotations

from ctypes import byref, c_int, c_void_p, sizeof
from dataclasses import dataclass
from typing import Any

from collective_core import _lib, environment
from collective_core.buffers import Buffer, as_buffer, expect
from collective_core.collectives import Collectives
from collective_core.enums import Dtype, Operation, Redop, Transport
from collective_core.errors import CollectiveCoreError, Result
from collective_core.handle import milliseconds
from collective_core.interruptible import joined
from collective_core.observation import Observation, OperationStats, Peer, TraceEntry
from collective_core.transfers import Source, Transfers
from collective_core.unique_id import get_unique_id, unique_id_from_address

__all__ = [
    "Buffer",
    "Communicator",
    "Dtype",
    "Operation",
    "OperationStats",
    "Peer",
    "Redop",
    "Source",
    "TraceEntry",
    "Transport",
    "as_buffer",
    "dump_config",
    "get_unique_id",
    "unique_id_from_address",
]


def dump_config() -> str:
    """Return what `Communicator.dump_config` would, as the environment of this process alone says."""
    return _lib.text_of(_lib.library().cc_dump_config, None)


@dataclass(frozen=True, slots=True)
class Launch:
    """How this process was started; `local_size`, the ranks on this host, is 0 when the launcher does not say."""

    rank: int
    size: int
    local_size: int
    launcher: str


def launch() -> Launch:
    """Read the variables of Open MPI, MPICH, torchrun or Slurm; raises CollectiveCoreError if they make no sense."""
    found = _lib.Launch(size=sizeof(_lib.Launch))
    _lib.check(_lib.library().cc_get_launch(byref(found)))
    return Launch(found.rank, found.nranks, found.local_size, found.launcher.decode())


_NO_COLOR = -1
_STORE_KEY = "collective_core_unique_id"


class Communicator(Collectives, Transfers, Observation):
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
        """Join the group; returns on all ranks together. Ctrl-C ends the waiting for other ranks."""
        if len(unique_id) != sizeof(_lib.UniqueId):
            raise CollectiveCoreError(Result.INVALID_ARGUMENT, "a unique id has 128 bytes")
        if rank == 0:
            environment.warn_of_misspelt()
        config = _config(
            timeout_s=timeout_s, init_timeout_s=init_timeout_s, transport=transport, node_id=node_id,
            interface_name=interface_name, address=address,
        )  # fmt: skip
        self.rank = rank
        self.size = size
        identity = _lib.UniqueId.from_buffer_copy(unique_id)
        self._library = library = _lib.library()
        self._handle = joined(
            lambda handle: int(library.cc_comm_init_rank(handle, size, byref(identity), rank, byref(config)))
        )

    @classmethod
    def from_environment(cls, **settings: Any) -> Communicator:
        """Join as Open MPI, MPICH, torchrun or Slurm started this process; alone without any of them.

        `settings` are keywords of the constructor. What to set when ranks are on several hosts is in
        docs/environment.md. Ctrl-C ends the waiting for other ranks.
        """
        if launch().rank == 0:
            environment.warn_of_misspelt()
        config = _config(**settings)
        return cls._adopt(joined(lambda handle: int(_lib.library().cc_comm_init(handle, byref(config)))))

    @classmethod
    def from_store(cls, store: Any, rank: int, size: int, **settings: Any) -> Communicator:
        """Join through a torch Store of its own (a `PrefixStore`, when others use the same one)."""
        if rank == 0:
            store.set(_STORE_KEY, get_unique_id())
        return cls(rank, size, bytes(store.get(_STORE_KEY)), **settings)

    @classmethod
    def from_mpi(cls, comm: Any, **settings: Any) -> Communicator:
        """Join with the ranks of an mpi4py communicator; all of them call it."""
        rank, size = int(comm.Get_rank()), int(comm.Get_size())
        identity = comm.bcast(get_unique_id() if rank == 0 else None, root=0)
        return cls(rank, size, bytes(identity), **settings)

    def split(self, color: int | None, key: int = 0, **changes: Any) -> Communicator | None:
        """Make a communicator of the ranks that call it with this color, in the order of `key`, then rank.

        All ranks call it. With color None this rank joins none. `changes` are keywords of the constructor; what is
        not named stays as it is here. Ctrl-C ends the waiting for other ranks.
        """
        # ctypes would take the last bits of any other, and so put ranks together that are to be apart.
        expect(color is None or 0 <= color < 1 << 31, f"color {color} is not from 0 to 2^31 - 1")
        expect(-(1 << 31) <= key < 1 << 31, f"key {key} does not fit 32 bits")
        config = _config(**changes)
        wanted, whole, library = _NO_COLOR if color is None else color, self._live(), self._library
        handle = joined(lambda part: int(library.cc_comm_split(whole, wanted, key, byref(config), part)))
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

    def retune(self) -> None:
        """Measure all algorithms again with the next operations; every rank calls it in the same place."""
        _lib.check(self._library.cc_tuner_retune(self._live()))

    def tuner_set(self, collective: str, size_bytes: int, dtype: Dtype, algorithm: str) -> None:
        """Let a collective take an algorithm for data of about that size; every rank calls it in the same place.

        `size_bytes` stands for all sizes up to the next power of two, `dtype` for all types that are reduced alike.
        """
        names = collective.encode(), algorithm.encode()
        _lib.check(self._library.cc_tuner_set(self._live(), names[0], size_bytes, int(dtype), names[1]))

    def finalize(self, timeout_s: float | None = None) -> None:
        """Wait until all ranks have called it; afterwards it can only be destroyed, which no other rank notices."""
        self._call("cc_comm_finalize", timeout_s=timeout_s)

    def abort(self) -> None:
        """End the running operation on all ranks with an error; from any thread."""
        _lib.check(self._library.cc_comm_abort(self._live()))

    def async_error(self) -> Result:
        """Return SUCCESS, IN_PROGRESS or the first error, without waiting."""
        state = c_int()
        _lib.check(self._library.cc_comm_get_async_error(self._live(), byref(state)))
        return Result(state.value)


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
        timeout_ms=milliseconds(timeout_s),
        init_timeout_ms=milliseconds(init_timeout_s),
        transport=int(transport),
        node_id=_encoded(node_id),
        interface_name=_encoded(interface_name),
        address=_encoded(address),
    )


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
