"""A rank that reduces numpy arrays through the CPU-reduce pipeline, then prints what it got as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy
from collective_core.communicator import Communicator, Operation, Redop
from collective_core.cpu_reduce import CpuReduce

from collective_core import CollectiveCoreError

refusals = []


def refused(*arguments: Any, **settings: int) -> None:
    """Note the text with which a call is refused."""
    try:
        with CpuReduce(comm, **settings) as one:
            one.run(*arguments)
    except CollectiveCoreError as error:
        refusals.append(str(error))


with Communicator.from_environment() as comm:
    rank = comm.rank
    send = numpy.random.default_rng(rank).integers(-1000, 1000, 100003).astype("f4")
    recv = numpy.empty_like(send)
    with CpuReduce(comm, chunk_bytes=65536, chunks=2) as pipeline:
        pipeline.run(send, recv)
        pipeline.run(send, op=Redop.MAX)
    calls = comm.stats()[Operation.CPU_REDUCE].calls
    refused(send)  # CCORE_CPU_REDUCE_CHUNK_BYTES is too small for an element
    refused(send, recv[1:], chunk_bytes=4096)
    refused(send, chunk_bytes=-1)
    pipeline.destroy()
    try:
        pipeline.run(send)
    except CollectiveCoreError as error:
        refusals.append(str(error))
    comm.barrier()
    print(json.dumps({"sum": recv.tolist(), "max": send.tolist(), "calls": calls, "refusals": refusals}))
