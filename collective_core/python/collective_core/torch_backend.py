"""The torch.distributed backend `ccore`: a ProcessGroup over the communicator, for CPU and CUDA tensors.

Import this module (or let torch find the entry point), then
`torch.distributed.init_process_group("ccore", ...)`. Works under DDP.
"""

from __future__ import annotations

import contextlib
import logging
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from collective_core import _lib, affinity, environment, log
from collective_core.communicator import Communicator
from collective_core.torch.copies import Copies
from collective_core.torch.identity import Identity
from collective_core.torch.monitored_barrier import MonitoredBarrier
from collective_core.torch.reductions import Reductions
from collective_core.torch.registration import register
from collective_core.torch.transfers import Transfers
from collective_core.torch.work import CcoreBackendError
from collective_core.unique_id import get_unique_id
from collective_core.usage import UsageRecorder

__all__ = ["CcoreBackendError", "CcoreProcessGroup", "create_process_group"]

_logger = logging.getLogger("collective_core")
_ID_KEY = "ccore_unique_id"

# Any: the signatures in torch's stubs change with every release, and this class serves all of them.
_ProcessGroup: Any = dist.ProcessGroup


class CcoreProcessGroup(Identity, Reductions, Copies, Transfers, _ProcessGroup):  # type: ignore[misc]  # see above
    """Runs collectives in the order of their calls; an asynchronous call returns a CcoreWork at once.

    Sends and receives that follow each other run together; a collective waits for those called before it.
    """

    def __init__(self, communicator: Communicator, store: Any, timeout: timedelta) -> None:
        """Take over the communicator; the store is the group's own part of torch's."""
        _ProcessGroup.__init__(self, communicator.rank, communicator.size)
        Identity.__init__(self, communicator.rank, communicator.size)
        Reductions.__init__(self, communicator, timeout)
        self._store = store
        self._timeout = timeout
        self._monitored = MonitoredBarrier(store, communicator.rank, communicator.size)

    def get_group_store(self) -> Any:
        """Return the group's own part of torch's store."""
        return self._store

    # torch 2.4 asks the backends inside a group for its name, and this group has no backend inside: two groups would
    # share the name "", under which functional collectives then find the wrong one. So the name is kept on this side.
    def _set_group_name(self, name: str) -> None:
        self.setGroupName(name)
        _ProcessGroup._set_group_name(self, name)

    def _set_group_desc(self, desc: str) -> None:
        self.setGroupDesc(desc)
        _ProcessGroup._set_group_desc(self, desc)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Return when all ranks have come; else rank 0 raises an error that names the first missing, or all.

        torch.distributed.monitored_barrier refuses every backend but gloo by its name: call this on the group.
        """
        limit = self._timeout if timeout is None else timeout
        self._monitored.run(limit.total_seconds(), wait_all_ranks=wait_all_ranks)

    def shutdown(self) -> None:
        """Finish what was called, then leave the group."""
        if self._open:
            self._open = False
            self._worker.stop()
            self._cuda_nodes.release()
            self._cuda_reduce.release()
            self._cuda.release()
            self._communicator.destroy()

    def abort(self) -> None:
        """End what is running with an error on all ranks, then leave the group."""
        if self._open:
            self._cuda.abort()
            self._cuda_nodes.abort()
            self._communicator.abort()
            self.shutdown()

    def describe(self) -> dict[str, str]:
        """Return how this group moves data: see `collective_core.torch.describe`."""
        return {
            "library": f"collective_core {_lib.version()}",
            "transport": _transports(self._communicator),
            "cuda_path": self._cuda.path_name(),
            "cuda": self._cuda.describe(),
            "between_nodes": self._cuda_nodes.describe(),
        }

    def usage_recorder(self) -> UsageRecorder:
        """Return a recorder of this group's operations: see `collective_core.torch.usage_recorder`."""
        return UsageRecorder(self._communicator, self._cuda_nodes.calls)


def create_process_group(store: Any, rank: int, size: int, timeout: timedelta) -> CcoreProcessGroup:
    """Make the group; torch calls it with the group's own part of the store. Rank 0's id travels through it."""
    _shut_down_when_destroyed()
    seconds = timeout.total_seconds()
    if rank == 0:
        unique_id = get_unique_id()
        store.set(_ID_KEY, unique_id)
    else:
        try:
            store.wait([_ID_KEY], timeout)
        except RuntimeError as error:  # torch 2.4 does not name the key
            raise CcoreBackendError(
                f"rank 0 has not begun to make the group within {seconds:g} s ({_ID_KEY} is missing): {error}"
            ) from error
        unique_id = bytes(store.get(_ID_KEY))
    try:
        communicator = Communicator(rank, size, unique_id, timeout_s=seconds, init_timeout_s=seconds)
    finally:
        if rank == 0:
            _forget_id(store)
    # No rank makes the next group in the same store before this one's id is gone from it.
    communicator.barrier(seconds)
    _announce(communicator)
    affinity.bind_ranks(communicator)
    return CcoreProcessGroup(communicator, store, timeout)


def _shut_down_when_destroyed() -> None:
    """Let destroy_process_group of torch 2.4 and 2.5 shut a group down; newer releases call shutdown() themselves.

    A failed group that was destroyed would else end its process after the grace time, since no call raised its error.
    """
    torch_names: Any = vars(dist.distributed_c10d)
    of_torch = torch_names.get("_shutdown_backend")
    if of_torch is None or of_torch.__module__ == __name__:
        return

    def shut_down(group: Any) -> None:
        if isinstance(group, CcoreProcessGroup):
            group.shutdown()
        else:
            of_torch(group)

    torch_names["_shutdown_backend"] = shut_down


def _forget_id(store: Any) -> None:
    """Let no later group take this one's id: a store may outlive its groups, and torch uses their names again."""
    with contextlib.suppress(RuntimeError):  # a store that cannot delete
        store.delete_key(_ID_KEY)


def _announce(communicator: Communicator) -> None:
    """Log that this backend is the one in use; on stderr when CCORE_DEBUG asks for it."""
    if environment.text("CCORE_DEBUG").upper() in {"VERSION", "INFO", "DEBUG", "TRACE"}:
        log.show_on_stderr()
    rank, size = communicator.rank, communicator.size
    _logger.info(
        "collective_core %s ccore backend init rank %d/%d host %s transport %s",
        _lib.version(), rank, size, communicator.peer(rank).host, _transports(communicator),
    )  # fmt: skip


def _transports(communicator: Communicator) -> str:
    peers = [peer for peer in range(communicator.size) if peer != communicator.rank]
    return ",".join(sorted({communicator.peer(peer).transport for peer in peers})) or "self"


register(create_process_group)
