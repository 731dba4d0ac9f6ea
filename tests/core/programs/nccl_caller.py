"""A rank that calls NCCL's functions by the names that a program is linked with. argv: rank, number of ranks.

It has two communicators, which the ranks group in different orders. Prints what the NCCL-symbol library reports.
"""

from __future__ import annotations

import ctypes
import os
import sys

rank, ranks = map(int, sys.argv[1:])
nccl = ctypes.CDLL(None)
nccl.ncclGetLastError.restype = ctypes.c_char_p
ALL_REDUCE, FLOAT32, FP8, SUM, OWN_OPERATOR = "ncclAllReduce", 7, 10, 0, 5
data = ctypes.c_void_p(4096)


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def all_reduce(comm: ctypes.c_void_p, count: int, dtype: int = FLOAT32, op: int = SUM) -> int:
    return nccl.ncclAllReduce(data, data, ctypes.c_size_t(count), dtype, op, comm, None)


def communicator(*, grouped: bool) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    assert not grouped or nccl.ncclGroupStart() == 0
    assert nccl.ncclCommInitRank(ctypes.byref(made), ranks, Id(), rank) == 0
    assert not grouped or nccl.ncclGroupEnd() == 0
    return made


first, second = communicator(grouped=False), communicator(grouped=True)
assert all_reduce(first, 4) == 0
assert all_reduce(first, 4, op=OWN_OPERATOR) == 0
assert all_reduce(first, 4, dtype=FP8) == 0
assert nccl.ncclAllGather(data, data, ctypes.c_size_t(3), FP8, first, None) == 0
nccl.ncclGroupStart()
for comm, count in ((first, 100), (second, 200)) if rank == 0 else ((second, 200), (first, 100)):
    assert nccl.ncclSend(data, ctypes.c_size_t(2), FLOAT32, 1 - rank, comm, None) == 0
    assert nccl.ncclRecv(data, ctypes.c_size_t(2), FLOAT32, 1 - rank, comm, None) == 0
    assert all_reduce(comm, count) == 0
assert nccl.ncclGroupEnd() == 0
state = ctypes.c_int(-1)
assert nccl.ncclCommGetAsyncError(first, ctypes.byref(state)) == 0
if "FAKE_LATE" in os.environ:
    assert state.value == 6  # ncclRemoteError
    assert b"rank 1 is late" in nccl.ncclGetLastError(first)
else:
    assert state.value == 0
assert nccl.ncclCommDestroy(first) == 0
assert nccl.ncclCommAbort(second) == 0
