"""A rank that reduces arrays in registered memory and in ordinary memory, then prints what it saw as JSON."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy
from collective_core.communicator import Communicator, Operation, Redop
from collective_core.memory import Registration, allocate

from collective_core import CollectiveCoreError


def mappings() -> int:
    """Count the mappings of such memory, this rank's own and those of others."""
    return Path("/proc/self/maps").read_text().count("collective_core_memory")


def array(dtype: str, count: int) -> Any:
    """Return an array in memory of its own that others can map."""
    return numpy.frombuffer(allocate(count * numpy.dtype(dtype).itemsize), dtype=dtype)


same = []
with Communicator.from_environment() as comm:
    rank = comm.rank
    for dtype in ("f8", "f4", "f2", "i1", "i8"):
        send, recv = array(dtype, 100_003), array(dtype, 100_003 + rank)
        with Registration(comm, send) as one, Registration(comm, recv) as other:
            direct = one.direct and other.direct
            reached = mappings()
            for op in (Redop.SUM, Redop.AVG, Redop.MIN):
                values = numpy.random.default_rng(rank).integers(-100, 100, 100_003).astype(dtype)
                ordinary = numpy.empty_like(values)
                comm.all_reduce(values, ordinary, op)
                send[:] = values
                comm.all_reduce(send, recv[:100_003], op)
                comm.all_reduce(send, send, op)
                same.append(bool((send == ordinary).all() and (recv[:100_003] == ordinary).all()))
        del send, recv
    gc.collect()
    closed = mappings()
    forgotten = array("f4", 50_000)
    Registration(comm, forgotten)
    del forgotten
    gc.collect()
    kept = mappings()
    try:
        Registration(comm, numpy.empty(0))
    except CollectiveCoreError as error:
        refusal = str(error)
    calls = {one.name: (sums.calls, sums.bytes) for one, sums in comm.stats().items()}
    registered, deregistered = calls[Operation.MEM_REGISTER.name], calls[Operation.MEM_DEREGISTER.name]
del comm, one, other
gc.collect()
print(
    json.dumps(
        {
            "direct": direct, "same": same, "refusal": refusal, "registered": registered,
            "deregistered": deregistered, "mappings": [reached, closed, kept, mappings()],
        }
    )
)  # fmt: skip
