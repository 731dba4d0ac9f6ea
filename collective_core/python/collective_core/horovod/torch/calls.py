"""Handles: a call on its way, as a number, as Horovod has it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from collective_core.horovod import world
from collective_core.horovod.common.process_sets import ProcessSet
from collective_core.horovod.requests import Kind, Request

_numbers = itertools.count(1)
_handles: dict[int, tuple[Request, Callable[[Any], Any] | None]] = {}


def submit(
    kind: Kind,
    tensors: Sequence[torch.Tensor],
    process_set: ProcessSet,
    name: str | None,
    *,
    finish: Callable[[Any], Any] | None = None,
    **fields: Any,
) -> int:
    """Start a call and return its handle. `finish` makes the caller's result of the collective's."""
    here = world.current()
    listed = list(tensors)
    request = Request(
        kind, here.name_of(kind, process_set.process_set_id, name), listed, events=_events(listed), **fields
    )
    here.group(process_set.process_set_id).submit(request)
    handle = next(_numbers)
    _handles[handle] = (request, finish)
    return handle


def poll(handle: int) -> bool:
    """Tell whether a call has ended, so that `synchronize` will not block."""
    return _found(handle)[0].is_ended()


def synchronize(handle: int) -> Any:
    """Wait for a call and return its result; raises HorovodInternalError. The handle is used up."""
    request, finish = _found(handle)
    del _handles[handle]
    result = request.wait()
    return finish(result) if finish is not None else result


def _found(handle: int) -> tuple[Request, Callable[[Any], Any] | None]:
    if handle not in _handles:
        raise ValueError(f"{handle} is not the handle of a call, or it was synchronized already")
    return _handles[handle]


def _events(tensors: Sequence[torch.Tensor]) -> list[Any]:
    """Return what to wait for before the tensors can be read: work that this thread has queued on their GPUs."""
    events = []
    make_event: Any = torch.cuda.Event  # torch does not type it
    for device in {tensor.device for tensor in tensors if tensor.device.type == "cuda"}:
        event = make_event()
        event.record(torch.cuda.current_stream(device))
        events.append(event)
    return events
