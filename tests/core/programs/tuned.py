"""A rank whose operations are tuned: checks every result, then prints what the tuner says as JSON.

Argument: how many rounds. A second one has rank 1 do something else about the tuner than the others.
"""

from __future__ import annotations

import json
import os
import sys

import numpy
from collective_core.communicator import Communicator, Dtype, Redop, unique_id_from_address

from collective_core import CollectiveCoreError

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rounds, odd = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
identity = unique_id_from_address(
    os.environ["CCORE_ROOT_ADDR"],
    int(os.environ["CCORE_ROOT_PORT"]),
    os.environ["CCORE_JOB_SECRET"],
    is_root=rank == 0,
)


def run(comm: Communicator, count: int) -> None:
    """Call what has several algorithms, with all its results checked."""
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


with Communicator(rank, size, identity, timeout_s=30) as comm:
    try:
        if odd == "set":
            comm.tuner_set("broadcast", 4096, Dtype.FLOAT32, "tree" if rank == 1 else "chain")
        if odd == "retune" and rank != 1:
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
