"""A rank whose ports strangers knock at. argv: a directory; argv[2]: rounds at least.

Joins, says "joined", and waits for the file `go`. Then every round splits the communicator, which opens ports,
reduces in the part and in the whole, and checks both; until the file `stop` is there. Says how many rounds it made.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy
from collective_core.communicator import Communicator, Redop

folder, least = Path(sys.argv[1]), int(sys.argv[2])
with Communicator.from_environment(init_timeout_s=60, timeout_s=30) as comm:
    print("joined", flush=True)
    deadline = time.monotonic() + 60
    while not (folder / "go").exists():
        assert time.monotonic() < deadline, "nobody said go"
        time.sleep(0.01)
    rounds = 0
    while True:
        part = comm.split(0, comm.size - comm.rank)
        assert part is not None
        with part:
            assert (part.rank, part.size) == (comm.size - 1 - comm.rank, comm.size)
            for joined in (part, comm):
                data = numpy.full(5000, float(comm.rank + rounds))
                joined.all_reduce(data, data)
                ranks = sum(range(comm.size)) + comm.size * rounds
                assert (data == ranks).all(), data
        rounds += 1
        # Rank 0 decides for all, or one would wait in a round that the others do not begin.
        stop = numpy.array([comm.rank == 0 and rounds >= least and (folder / "stop").exists()], dtype="i4")
        comm.all_reduce(stop, stop, Redop.MAX)
        if stop[0]:
            break
    comm.finalize()
print(f"{rounds} rounds")
