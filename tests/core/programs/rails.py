"""A rank that reduces and exchanges much data, checks it, and says "done"; for counting bytes on interfaces.

argv[1]: how many MiB.
"""

from __future__ import annotations

import sys

import numpy
from collective_core.communicator import Communicator

mebibytes = int(sys.argv[1])
with Communicator.from_environment(timeout_s=60) as comm:
    rank = comm.rank
    data = numpy.arange(mebibytes << 18, dtype="i4") + rank
    total = numpy.empty_like(data)
    comm.all_reduce(data, total)
    assert (total == 2 * data + (1 - 2 * rank)).all()
    with comm.group():
        comm.send(data, 1 - rank)
        comm.recv(total, 1 - rank)
    assert (total == data + (1 - 2 * rank)).all()
print("done")
