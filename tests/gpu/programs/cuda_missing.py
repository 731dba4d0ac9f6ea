"""A rank that reads the result of an operation to which rank 1 does not come, in every way that programs read.

argv: cases, "COLLECTIVE:ELEMENTS:MODE:STREAM:READ". Each has a process group of its own.
Rank 0 prints a line per case: what it found ("error", "invalid", or "WRONG" with values) and after how many seconds.
"""

from __future__ import annotations

import faulthandler
import math
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import collective_core.torch
import collective_core.torch_backend  # registers ccore
import torch
import torch.distributed as dist

LIMIT_S = 1.0
# A case that hangs ends the rank with a traceback.
HANG_S = 12.0
faulthandler.enable()
dist.init_process_group("gloo", timeout=timedelta(seconds=120))
rank, size = dist.get_rank(), dist.get_world_size()
gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(gpu)
INVALID = torch.iinfo(torch.int32).min


def values(tensor: torch.Tensor) -> list[float]:
    """What a program reads of a tensor, without another wait."""
    flat = tensor.flatten()
    return [float(flat[at].item()) for at in (0, flat.numel() // 2, flat.numel() - 1)]


def by_list(tensor: torch.Tensor) -> list[float]:
    """Read all elements."""
    return [float(value) for value in tensor.flatten().tolist()]


def by_print(tensor: torch.Tensor) -> list[float]:
    """Read by the text of the tensor, then by its elements."""
    repr(tensor)
    return values(tensor)


def by_synchronize(tensor: torch.Tensor) -> list[float]:
    """Read after the device has come to its end."""
    torch.cuda.synchronize()
    return values(tensor)


def by_event(tensor: torch.Tensor) -> list[float]:
    """Read after an event of the program's own."""
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
    return values(tensor)


def by_sum(tensor: torch.Tensor) -> list[float]:
    """Read what a kernel makes of it."""
    return [float(tensor.double().sum().item())]


def by_future(tensor: torch.Tensor) -> list[float]:
    """Read one element; `launch` has waited for the Future alone, as DDP does."""
    return values(tensor)


READS: dict[str, Callable[[torch.Tensor], list[float]]] = {
    "tolist": by_list, "item": values, "print": by_print, "synchronize": by_synchronize, "event": by_event,
    "sum": by_sum, "future": by_future,
}  # fmt: skip
Call = Callable[[dist.ProcessGroup, bool], tuple[object, torch.Tensor]]


def all_reduce(count: int, dtype: torch.dtype = torch.float32) -> Call:
    """Sum ones."""
    tensor = torch.ones(count, device=gpu, dtype=dtype)
    return lambda group, wants_work: (dist.all_reduce(tensor, group=group, async_op=wants_work), tensor)


def call_of(collective: str, count: int) -> Call:
    """A call of the collective, and the tensor whose elements depend on the rank that does not come."""
    if collective == "all_reduce":
        return all_reduce(count)
    if collective == "int32":
        return all_reduce(count, torch.int32)
    given = torch.ones(count * size, device=gpu)
    if collective == "reduce_scatter":
        output = torch.full((count,), 5.0, device=gpu)
        return lambda group, wants_work: (
            dist.reduce_scatter_tensor(output, given, group=group, async_op=wants_work),
            output,
        )
    if collective == "all_gather":
        every = torch.full((size * count,), 5.0, device=gpu)
        return lambda group, wants_work: (
            dist.all_gather_into_tensor(every, given[:count], group=group, async_op=wants_work),
            every[count:],
        )
    if collective == "broadcast":
        received = torch.full((count,), 5.0, device=gpu)
        return lambda group, wants_work: (
            dist.broadcast(received, 1, group=group, async_op=wants_work),
            received,
        )
    assert collective == "all_to_all"
    blocks = torch.full((size * count,), 5.0, device=gpu)
    return lambda group, wants_work: (
        dist.all_to_all_single(blocks, given, group=group, async_op=wants_work),
        blocks[count:],
    )


def attempt(group: dist.ProcessGroup, call: Call, mode: str, read: str) -> str:
    """Call, read, and say what was found."""
    try:
        work, tensor = call(group, mode == "async")
        if read == "future":
            work.get_future().wait()  # type: ignore[attr-defined]
        elif mode == "async":
            work.wait()  # type: ignore[attr-defined]
        found = READS[read](tensor)
    except RuntimeError as error:  # of a Future, too
        return f"error {error}"
    if all(math.isnan(value) or value == INVALID for value in found):
        return "invalid"
    if read == "sum" and tensor.dtype == torch.int32 and found[0] < 0:
        return "invalid"
    return f"WRONG {found[:4]}"


def run(case: str) -> None:
    """Let one group meet, then let rank 0 alone call."""
    collective, count, mode, stream, read = case.split(":")
    group = dist.new_group(backend="ccore", timeout=timedelta(seconds=LIMIT_S))
    warm = torch.ones(8, device=gpu)
    dist.all_reduce(warm, group=group)
    assert warm.tolist() == [size] * 8
    path = collective_core.torch.describe(group)["cuda_path"]
    call = call_of(collective, int(count))
    torch.cuda.synchronize()
    dist.barrier()
    if rank != 1:
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        begin = time.monotonic()
        with torch.cuda.stream(torch.cuda.Stream() if stream == "side" else torch.cuda.default_stream()):
            found = attempt(group, call, mode, read)
        took_s = time.monotonic() - begin
        # The failure is raised by the next call at the latest.
        try:
            dist.all_reduce(torch.ones(1, device=gpu), group=group)
            found = f"UNRAISED {found}"
        except dist.DistBackendError:
            pass
        faulthandler.cancel_dump_traceback_later()
        print(f"{case} {took_s:.2f} s: {found} ({path})", flush=True)
    dist.barrier()
    dist.destroy_process_group(group)


for case in sys.argv[1:]:
    run(case)
torch.cuda.synchronize()
dist.barrier()
print("done", flush=True)
os._exit(0)
