"""A rank that reduces, checks the sum, and prints as JSON on which node each rank is; for counting bytes on interfaces.

argv[1]: how many MiB.
"""

from __future__ import annotations

import json
import sys

import numpy
from collective_core.communicator import Communicator

mebibytes = int(sys.argv[1])
with Communicator.from_environment(timeout_s=60) as comm:
    rank, size = comm.rank, comm.size
    data = numpy.arange(mebibytes << 18, dtype="i4") + rank
    total = numpy.empty_like(data)
    comm.all_reduce(data, total)
    assert (total == size * (data - rank) + size * (size - 1) // 2).all()
    print(json.dumps([comm.peer(other).node for other in range(size)]))
