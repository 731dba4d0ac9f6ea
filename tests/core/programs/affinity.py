"""A rank that binds itself if the environment says so, and prints the masks of its main and of another thread."""

from __future__ import annotations

import json
import os
import threading

from collective_core.affinity import bind_ranks, parse_list
from collective_core.communicator import Communicator

if "TEST_MASK" in os.environ:
    os.sched_setaffinity(0, parse_list(os.environ["TEST_MASK"]))

started, asked = threading.Event(), threading.Event()
masks: list[list[int]] = []


def other_thread() -> None:
    started.set()
    asked.wait(60)
    masks.append(sorted(os.sched_getaffinity(threading.get_native_id())))


thread = threading.Thread(target=other_thread)
thread.start()
started.wait(60)
with Communicator.from_environment() as communicator:
    try:
        binding = bind_ranks(communicator)
    finally:
        asked.set()
    thread.join()
    communicator.barrier()
print(json.dumps({
    "reason": binding.reason if binding else "", "threads": [sorted(os.sched_getaffinity(0)), *masks],
}))  # fmt: skip
