"""A rank in one operation with a root, after which ranks leave as soon as they have done their part. Prints the result.

argv[1]: broadcast, scatter or gather; rank 0 is the root. Rank 1 leaves, and ends, long before the last one begins.
"""

from __future__ import annotations

import sys
import time

import numpy
from collective_core.communicator import Communicator

COUNT = 100_000
with Communicator.from_environment(timeout_s=60) as comm:
    comm.barrier()
    if comm.rank == 2:
        time.sleep(1.5)
    every = numpy.arange(COUNT * comm.size, dtype="i4") * (comm.rank == 0)
    own = every[:COUNT] if comm.rank == 0 else numpy.full(COUNT, comm.rank, dtype="i4")
    if sys.argv[1] == "broadcast":
        comm.broadcast(every, 0)
        right = every[-1] == every.size - 1
    elif sys.argv[1] == "scatter":
        comm.scatter(every, own, 0)
        right = own[-1] == COUNT * (comm.rank + 1) - 1
    else:
        comm.gather(own, every, 0)
        right = comm.rank != 0 or list(every[COUNT - 1 :: COUNT]) == [COUNT - 1, 1, 2]
print("right" if right else f"wrong: {every} {own}")
