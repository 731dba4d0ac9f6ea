"""A rank that checks the Python communicator on numpy and ctypes arrays, then prints its peers as JSON."""

from __future__ import annotations

import ctypes
import json
from dataclasses import asdict

import numpy
from collective_core.communicator import Communicator, Operation, Redop

from collective_core import Result

with Communicator.from_environment() as comm:
    rank, size = comm.rank, comm.size
    for dtype in ("f8", "f4", "f2", "i1", "u1", "i4", "u4", "i8", "u8"):
        send = (numpy.arange(1001) % 5 + rank).astype(dtype)
        recv = numpy.zeros_like(send)
        comm.all_reduce(send, recv, Redop.SUM)
        expected = sum((numpy.arange(1001) % 5 + other).astype(dtype) for other in range(size))
        assert (recv == expected).all(), dtype
        comm.all_reduce(send, send, Redop.MAX)
        assert (send == (numpy.arange(1001) % 5 + size - 1).astype(dtype)).all(), dtype

    numbers = (ctypes.c_int32 * 3)(rank, 2 * rank, -rank)
    comm.all_reduce(numbers, numbers)
    total = sum(range(size))
    assert list(numbers) == [total, 2 * total, -total]

    everyone = numpy.empty((size, 2))
    comm.all_gather(numpy.array([rank, -rank], dtype="f8"), everyone)
    assert (everyone == [[other, -other] for other in range(size)]).all()

    block = numpy.empty(2, dtype="f4")
    comm.reduce_scatter(numpy.arange(2 * size, dtype="f4"), block, Redop.AVG)
    assert (block == [2 * rank, 2 * rank + 1]).all()

    data = numpy.full(100_000, rank, dtype="i8")
    comm.broadcast(data, size - 1)
    assert (data == size - 1).all()

    # Everybody hears from everybody, and learns from whom.
    heard = numpy.empty((size, 1), dtype="i4")
    mark = numpy.array([100 + rank], dtype="i4")
    with comm.group():
        for other in range(size):
            comm.send(mark, other, tag=4)
        sources = [comm.recv_any(one, tag=4) for one in heard]
    assert [100 + source.rank for source in sources] == heard[:, 0].tolist()
    assert {source.rank for source in sources} == set(range(size))

    # Odd ranks backwards; even ranks in no part.
    part = comm.split(None if rank % 2 == 0 else 7, key=-rank)
    odd = list(range(1, size, 2))[::-1]
    assert (part is None) == (rank not in odd)
    if part is not None:
        with part:
            assert (part.rank, part.size) == (odd.index(rank), len(odd))
            value = numpy.array([rank])
            part.all_reduce(value, value)
            assert value[0] == sum(odd)
    reduced = comm.stats()[Operation.ALL_REDUCE]
    assert reduced.calls == 19 and reduced.errors == 0
    assert reduced.bytes == 2 * 1001 * (3 * 8 + 2 * 4 + 4 + 2 + 2 * 1) + 12
    assert 0 < reduced.longest_s <= reduced.total_s
    last = comm.trace()[-1]
    assert (last.operation, last.result, last.count) == (Operation.SPLIT, Result.SUCCESS, 0)
    assert last.end_ns is not None and last.end_ns > last.start_ns
    comm.finalize()
    print(json.dumps([asdict(comm.peer(other)) for other in range(size)]))
