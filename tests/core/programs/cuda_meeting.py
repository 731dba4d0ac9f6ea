"""A rank that meets the others at their first CUDA tensor, on a machine that need not have a GPU: their way, as JSON.

The library for devices is the one beside CCORE_LIBRARY. With FAKE_LOG, the fake is given calls, too.
"""

from __future__ import annotations

import contextlib
import json
import os
from ctypes import c_float
from pathlib import Path
from types import SimpleNamespace

import torch
from collective_core.communicator import Communicator
from collective_core.torch import cuda_meeting
from collective_core.torch.cuda_library import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    LIBRARY_NAME,
    Move,
    call,
    collectives,
    transfers,
)
from collective_core.torch.cuda_meeting import CudaMeeting


def is_loaded() -> bool:
    """Return whether this process has mapped the library for devices."""
    return LIBRARY_NAME in Path("/proc/self/maps").read_text()


# torch needs a GPU to make a device current; the fake library ignores the current device.
if not torch.cuda.is_available():
    cuda_meeting._cuda = SimpleNamespace(device=lambda _: contextlib.nullcontext())

with Communicator.from_environment(timeout_s=60) as communicator:
    meeting = CudaMeeting(communicator, 60)
    before = is_loaded()
    meeting.meet(torch.device("cuda", 0), None)
    report = {
        "loaded": [before, is_loaded()],
        "path": meeting.path_name(),
        "way": meeting.describe(),
    }
    if meeting.handle is not None and "FAKE_LOG" in os.environ:
        meeting.handle.launch(collectives(call(ALL_REDUCE, 64, 128, 1000, 1, 3)), 7)
        calls = [call(ALL_GATHER, 1, 2, 3, 4), call(BROADCAST, 5, 6, 7, 8, root=1)]
        tickets = [
            meeting.handle.launch_async(batch, 9)
            for batch in (collectives(*calls), transfers([Move(1, 2, 0, True), Move(3, 4, 1, False)]))
        ]
        assert tickets == [1, 1]
        assert meeting.handle.has_ended(meeting.handle.mark(7))
    # The ranks still agree on what is next.
    total = (c_float * 1)(1.0)
    communicator.all_reduce(total, total)
    meeting.release(has_failed=False)
    print(json.dumps({**report, "total": total[0]}))
