"""A rank that reduces, checks the sum, and prints as JSON on which node each rank is; for counting bytes on interfaces.

argv[1]: how many MiB.
"""

from __future__ import annotations

import json
import os
import sys

import numpy
from collective_core.communicator import Communicator, unique_id_from_address

rank, size, mebibytes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(sys.argv[1])
identity = unique_id_from_address(
    os.environ["CCORE_ROOT_ADDR"],
    int(os.environ["CCORE_ROOT_PORT"]),
    os.environ["CCORE_JOB_SECRET"],
    is_root=rank == 0,
)
with Communicator(rank, size, identity, timeout_s=60) as comm:
    data = numpy.arange(mebibytes << 18, dtype="i4") + rank
    total = numpy.empty_like(data)
    comm.all_reduce(data, total)
    assert (total == size * (data - rank) + size * (size - 1) // 2).all()
    print(json.dumps([comm.peer(other).node for other in range(size)]))
