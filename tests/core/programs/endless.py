"""A rank that reduces without end. Says "running" when it does, then how it ended, as one JSON line.

argv[1]: what rank 1 does after it has begun: die, stop, leave. With abort, rank 2 is stopped first, and then a second
thread of rank 1 aborts; how long that took is said too. Only a rank that stops is noticed by the deadline, so that
the others' is far away: a busy machine is slow.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

import numpy
from collective_core.communicator import Communicator, unique_id_from_address

from collective_core import CollectiveCoreError

rank, size, fate = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1]
identity = unique_id_from_address(
    os.environ["CCORE_ROOT_ADDR"],
    int(os.environ["CCORE_ROOT_PORT"]),
    os.environ["CCORE_JOB_SECRET"],
    is_root=rank == 0,
)
comm = Communicator(rank, size, identity, timeout_s=3 if fate == "stop" else 30)
data = numpy.ones(1 << 18, dtype="f4")
comm.all_reduce(data, data)
deadline = time.monotonic() + 60
signals = {"die": signal.SIGKILL, "stop": signal.SIGSTOP}
if rank == 1 and fate in signals:
    # From another thread, so that it hits in the middle of an operation.
    threading.Timer(0.3, os.kill, (os.getpid(), signals[fate])).start()
if rank == 2 and fate == "abort":
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGSTOP)).start()
abort_s: list[float] = []


def abort() -> None:
    start = time.monotonic()
    comm.abort()
    abort_s.append(time.monotonic() - start)


aborter = threading.Timer(1.3, abort)
if rank == 1 and fate == "abort":
    aborter.start()
if rank == 1 and fate == "leave":
    comm.destroy()
    sys.exit(0)
began = time.monotonic()
try:
    while time.monotonic() < deadline:
        data.fill(1)
        began = time.monotonic()
        comm.all_reduce(data, data)
except CollectiveCoreError as error:
    after_s = time.monotonic() - began
    if aborter.is_alive():
        aborter.join()
    print(json.dumps({"code": error.code.name, "text": str(error), "after_s": after_s, "abort_s": abort_s}))
    sys.exit(7)
