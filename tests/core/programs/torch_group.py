"""A rank that checks what a group of ccore offers beyond the collectives: profiles, deadlines, monitored barriers.

And what it refuses to a forked process.
"""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist
from collective_core.torch.profile import begin_span, end_launch

dist.init_process_group("ccore", timeout=timedelta(seconds=30))
rank, size = dist.get_rank(), dist.get_world_size()
group = dist.group.WORLD
assert size == 3

with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
    dist.all_reduce(torch.ones(3, 4))
    dist.all_reduce(torch.ones(5), async_op=True).wait()
    dist.send(torch.ones(2), (rank + 1) % size) if rank == 0 else None
    dist.recv(torch.ones(2)) if rank == 1 else None
events = [event for event in profile.events() if event.name.startswith("ccore:")]
shapes = {(event.name, str(event.input_shapes)) for event in events}
expected = {("ccore:all_reduce", "[[3, 4]]"), ("ccore:all_reduce", "[[5]]")}
if rank < 2:
    expected.add(("ccore:send" if rank == 0 else "ccore:recvAnySource", "[[2]]"))
assert shapes == expected, shapes
assert len(events) == len(expected) and all(event.cpu_time_total > 0 for event in events)
# What the worker did is shown as asynchronous.
assert {event.input_shapes[0][0] for event in events if event.is_async} >= {5}
# And so is what this thread queues on a device.
with torch.autograd.profiler.profile() as profile:
    end_launch(begin_span("broadcast", []))
assert [event.is_async for event in profile.function_events if event.name == "ccore:broadcast"] == [True]

group.monitored_barrier(timedelta(seconds=20))
group.monitored_barrier(timedelta(seconds=20), wait_all_ranks=True)
told = ""
if rank != 2:
    try:
        # Long enough for a rank that a busy machine holds up after the barrier before.
        group.monitored_barrier(timedelta(seconds=3))
    except RuntimeError as error:
        told = str(error)
assert (told == "") == (rank == 2)
if rank == 0:
    assert "Rank 2 failed to pass monitoredBarrier in 3000 ms" in told, told
if rank == 1:
    assert "Rank 1 successfully reached monitoredBarrier, but received errors" in told, told
    assert "Rank 2 failed" in told, told
total = torch.ones(1)
dist.all_reduce(total)  # a barrier that failed harms no rank
assert total.item() == size

short = dist.new_group()
short.set_timeout(timedelta(seconds=1))
if rank == 0:
    began = time.monotonic()
    try:
        dist.all_reduce(torch.ones(1), group=short)
    except RuntimeError as error:
        told = str(error)
    assert "did not end within its timeout of 1.000 s" in told, told
    assert time.monotonic() - began < 20
try:
    short.set_timeout(timedelta(0))
except RuntimeError as error:
    assert "must be positive" in str(error)
else:
    raise AssertionError("a timeout of zero was taken")

# A forked process has none of the threads that could run what it calls.
for call in (
    lambda: dist.all_reduce(torch.ones(1)),
    lambda: dist.all_reduce(torch.ones(1), async_op=True).wait(),
    lambda: dist.send(torch.ones(1), (rank + 1) % size),
):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            call()
        except dist.DistBackendError as error:
            os._exit("belongs to another process, which forked this one" not in str(error))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
dist.barrier()
dist.destroy_process_group()
print("done")
