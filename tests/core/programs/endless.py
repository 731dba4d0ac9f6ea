"""A rank that reduces without end, and says as one JSON line how that ended after all.

argv[1]: what rank 1 does after it has begun: die, stop, leave. With orphan, it dies and leaves a process that it has
forked, which ends after 20 s. With abort, rank 2 is stopped first, and then a second
thread of rank 1 aborts; when that began and how long it took is said too. What only the deadline ends has one of 3 s
(stop, cut); elsewhere it is far away: a busy machine is slow. argv[2]: the elements of 4 bytes, else 2**18. argv[3]:
another collective than all_reduce, with rank 1 as the root of what comes from one, and rank 0 of what goes to one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import numpy
from collective_core.communicator import Communicator

from collective_core import CollectiveCoreError

fate = sys.argv[1]
comm = Communicator.from_environment(timeout_s=3 if fate in ("stop", "cut") else 30)
rank = comm.rank
data = numpy.ones(int(sys.argv[2]) if len(sys.argv) > 2 else 1 << 18, dtype="f4")
other = numpy.empty_like(data)
share = data.size // comm.size
calls: dict[str, Callable[[], object]] = {
    "all_reduce": lambda: comm.all_reduce(data, data),
    "broadcast": lambda: comm.broadcast(data, 1),
    "scatter": lambda: comm.scatter(data, data[rank * share :][:share] if rank == 1 else data[:share], 1),
    "gather": lambda: comm.gather(data[:share], data, 0),
    "reduce": lambda: comm.reduce(data, data, 0),
    "all_gather": lambda: comm.all_gather(data[rank * share :][:share], data),
    "reduce_scatter": lambda: comm.reduce_scatter(data, data[rank * share :][:share]),
    "all_to_all": lambda: comm.all_to_all(data, other),
}
operate = calls[sys.argv[3] if len(sys.argv) > 3 else "all_reduce"]
operate()
deadline = time.monotonic() + 60
signals = {"die": signal.SIGKILL, "orphan": signal.SIGKILL, "stop": signal.SIGSTOP}
if rank == 1 and fate == "orphan" and os.fork() == 0:
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # the test reads to its end
    os.dup2(1, 2)
    time.sleep(20)
    os._exit(0)
if rank == 1 and fate in signals:
    # From another thread, so that it hits in the middle of an operation.
    threading.Timer(0.3, os.kill, (os.getpid(), signals[fate])).start()
if rank == 2 and fate == "abort":
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGSTOP)).start()
aborted: dict[str, float] = {}


def abort() -> None:
    start = time.monotonic()
    comm.abort()
    aborted.update(at=start, took_s=time.monotonic() - start)


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
        operate()
except CollectiveCoreError as error:
    ended = time.monotonic()
    if aborter.is_alive():
        aborter.join()
    report = {"code": error.code.name, "text": str(error), "ended": ended, "after_s": ended - began}
    print(json.dumps({**report, "aborted": aborted}))
    sys.exit(7)
