"""A rank that meets the others at their first CUDA tensor, on a machine that need not have a GPU: their way, as JSON.

The library for devices is the one beside CCORE_LIBRARY.
"""

from __future__ import annotations

import contextlib
import json
from ctypes import c_float
from pathlib import Path
from types import SimpleNamespace

import torch
from collective_core.communicator import Communicator
from collective_core.torch import cuda_meeting
from collective_core.torch.cuda_library import LIBRARY_NAME
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
    # The ranks still agree on what is next.
    total = (c_float * 1)(1.0)
    communicator.all_reduce(total, total)
    meeting.release(has_failed=False)
    print(json.dumps({**report, "total": total[0]}))
