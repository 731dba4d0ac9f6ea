"""A rank that reduces 16 bytes again and again and checks every sum, and says as one JSON line how that ended.

argv[1]: rounds. argv[2], of rank 1: "leaves" if it destroys its communicator then without a word to the others, who go
on for ever.
"""

from __future__ import annotations

import json
import sys
import time

import numpy
from collective_core.communicator import Communicator

from collective_core import CollectiveCoreError

rounds, leaves = int(sys.argv[1]), sys.argv[2:] == ["leaves"]
done = 0
began = time.monotonic()
try:
    with Communicator.from_environment(init_timeout_s=30, timeout_s=30) as comm:
        data = numpy.empty(2, dtype="i8")
        while done < rounds or (leaves and comm.rank != 1):
            data.fill(comm.rank + done)
            began = time.monotonic()
            comm.all_reduce(data, data)
            expected = sum(range(comm.size)) + comm.size * done
            assert (data == expected).all(), f"round {done}: {data}, expected {expected}"
            done += 1
        if not leaves:
            comm.finalize()
except CollectiveCoreError as error:
    report = {
        "code": error.code.name,
        "text": str(error),
        "rounds": done,
        "after_s": time.monotonic() - began,
    }
    print(json.dumps(report))
    sys.exit(7)
print("done")
