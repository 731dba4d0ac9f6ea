"""A rank whose operations are tuned: checks every result, then prints what the tuner says as JSON.

Argument: how many rounds. A second one has rank 1 do something else about the tuner than the others.
"""

from __future__ import annotations

import json
import sys

import numpy
from collective_core.communicator import Communicator, Dtype, Redop

from collective_core import CollectiveCoreError

rounds, odd = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""


def run(comm: Communicator, count: int) -> None:
    """Call what has several algorithms, with all its results checked."""
    rank, size = comm.rank, comm.size
    send = (numpy.arange(count) % 7 + rank).astype("f4")
    total = ((numpy.arange(count) % 7) * size + sum(range(size))).astype("f4")
    recv = numpy.zeros_like(send)
    comm.all_reduce(send, recv, Redop.SUM)
    assert (recv == total).all(), "all_reduce"
    recv[:] = 0
    comm.reduce(send, recv, size - 1)
    assert rank != size - 1 or (recv == total).all(), "reduce"
    comm.broadcast(send, 1)
    assert (send == (numpy.arange(count) % 7 + 1).astype("f4")).all(), "broadcast"


with Communicator.from_environment(timeout_s=30) as comm:
    try:
        if odd == "set":
            comm.tuner_set("broadcast", 4096, Dtype.FLOAT32, "tree" if comm.rank == 1 else "chain")
        if odd == "retune" and comm.rank != 1:
            comm.retune()
        for _ in range(rounds):
            run(comm, 300)
        if odd == "again":
            comm.retune()
            for _ in range(rounds):
                run(comm, 300)
        print(json.dumps(comm.tuner_dump()))
    except CollectiveCoreError as error:
        print(json.dumps(str(error)))
