"""Start, end, and who is who."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence

from collective_core.communicator import Communicator
from collective_core.horovod import world
from collective_core.horovod.common import process_sets as sets
from collective_core.horovod.common.exceptions import not_supported


def init(
    comm: Sequence[int] | None = None, process_sets: str | Sequence[sets.ProcessSet] | None = None
) -> None:
    """Meet the other ranks, which Open MPI, MPICH, torchrun or Slurm has started; a second call does nothing.

    `process_sets`: sets to bring into use at once; "dynamic" is accepted, since sets can always be added.
    Raises CollectiveCoreError when the ranks do not meet.
    """
    if world.is_current():
        return
    if comm:
        raise not_supported("init(comm=...)", "start as many ranks as are wanted, or use process sets")
    world.set_current(world.World(Communicator.from_environment()))
    atexit.register(shutdown)
    if process_sets is not None and not isinstance(process_sets, str):
        for process_set in process_sets:
            sets.add_process_set(process_set)


def shutdown() -> None:
    """Leave the job; calls that have not ended, end with an error on all ranks. Also done at exit."""
    if not world.is_current():
        return
    here = world.current()
    world.set_current(None)
    atexit.unregister(shutdown)
    sets.forget_all()
    if here.process == os.getpid():  # a forked child has neither the threads nor the connections
        here.close()


def is_initialized() -> bool:
    """Tell whether `init` was called, and not `shutdown` since."""
    return world.is_current()


def rank() -> int:
    """Return this process's number in the job. This and the following raise ValueError before `init`."""
    return world.current().rank


def size() -> int:
    """Return how many processes the job has."""
    return world.current().size


def local_rank() -> int:
    """Return this process's number on its node."""
    return world.current().local_rank


def local_size() -> int:
    """Return how many processes of the job are on this node."""
    return world.current().local_size


def cross_rank() -> int:
    """Return this node's number among those that have a process of this local rank."""
    return world.current().cross_rank


def cross_size() -> int:
    """Return how many nodes have a process of this local rank."""
    return world.current().cross_size


def is_homogeneous() -> bool:
    """Tell whether all nodes have as many processes."""
    return world.current().is_homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Begin a Chrome trace of the collectives, which rank 0 writes. There are no cycles to mark."""
    world.current().start_timeline(file_path)


def stop_timeline() -> None:
    """End the trace."""
    world.current().timeline.stop()


def mpi_threads_supported() -> bool:
    """No: MPI is not used, whatever starts the ranks."""
    return False


def mpi_enabled() -> bool:
    """No: MPI is not used."""
    return False


def mpi_built() -> bool:
    """No: MPI is not used."""
    return False


def gloo_enabled() -> bool:
    """No: collective_core has its own transports."""
    return False


def gloo_built() -> bool:
    """No: collective_core has its own transports."""
    return False


def nccl_built() -> int:
    """Return 0: NCCL is not used. Horovod returns NCCL's version here."""
    return 0


def ddl_built() -> bool:
    """No: IBM's DDL is not used."""
    return False


def ccl_built() -> bool:
    """No: Intel's oneCCL is not used."""
    return False


def cuda_built() -> bool:
    """No: tensors of a GPU take the way over host memory."""
    return False


def rocm_built() -> bool:
    """No: as cuda_built."""
    return False
