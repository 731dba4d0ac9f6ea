"""A rank that joins by the way that its argument names, reduces once, and says who it was."""

from __future__ import annotations

import os
import sys

import numpy
from collective_core.communicator import Communicator, unique_id_from_address

way = sys.argv[1]
if way == "mpi":
    from mpi4py import MPI

    joined = Communicator.from_mpi(MPI.COMM_WORLD)
elif way == "store":
    import torch.distributed as dist

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, rank == 0)
    first = Communicator.from_store(dist.PrefixStore("first", store), rank, size)
    joined = Communicator.from_store(dist.PrefixStore("second", store), rank, size)
    first.finalize()
    first.destroy()
elif way == "id":
    port = int(os.environ["MASTER_PORT"])
    joined = Communicator(1, 2, unique_id_from_address("127.0.0.1", port, "secret", is_root=False))
else:
    joined = Communicator.from_environment()
with joined as comm:
    value = numpy.array([comm.rank + 1])
    comm.all_reduce(value, value)
    # In one write, or lines of two ranks mix.
    sys.stdout.write(f"rank {comm.rank} of {comm.size}: {value[0]}\n")
    sys.stdout.flush()
    comm.finalize()
