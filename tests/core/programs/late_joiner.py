"""A rank that joins, and prints how many seconds that took. argv: a file; the last rank waits for it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy
from collective_core.communicator import Communicator

LONGEST_S = 90

if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
    deadline = time.monotonic() + LONGEST_S
    while not Path(sys.argv[1]).exists():
        assert time.monotonic() < deadline, f"{sys.argv[1]} does not appear"
        time.sleep(0.005)
began = time.monotonic()
with Communicator.from_environment() as comm:
    took_s = time.monotonic() - began
    data = numpy.full(1000, 1.0)
    comm.all_reduce(data, data)
    assert (data == comm.size).all(), data
    comm.finalize()
print(f"{took_s:.4f}")
