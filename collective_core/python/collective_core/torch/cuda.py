"""Collectives on CUDA tensors: through pinned host memory, after the work that the caller's stream has queued.

An operation is complete when its result is in the device's memory, so `wait` needs no event and any stream may read
the result. The host waits with a deadline for what the caller's stream had queued before the call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from collective_core.errors import CollectiveCoreError, Result

# Any: torch's stubs leave its events and streams untyped.
_cuda: Any = torch.cuda

Operation = Callable[[float | None], list[Any]]
_deadlines = threading.local()  # timeout_s: of the operation that the thread runs

# A wait of this length is spent looking, because a sleep of the kernel takes 50 us and more; later ones sleep.
_LOOK_S = 0.001
_SLEEP_S = 0.0001


def device_of(tensors: Sequence[torch.Tensor]) -> torch.device | None:
    """Return the CUDA device of the tensors, or None if all are in host memory; raise if they are on two devices."""
    devices = {tensor.device for tensor in tensors if tensor.is_cuda}
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT, f"the tensors of one call must be on one device, these are on {names}"
        )
    return next(iter(devices), None)


def pinned(like: torch.Tensor, shape: Sequence[int] | torch.Size | None = None) -> torch.Tensor:
    """Return pinned host memory with any content, of the type and (unless given) the shape of a tensor."""
    return torch.empty(
        like.shape if shape is None else shape, dtype=like.dtype, device="cpu", pin_memory=True
    )


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a pinned copy of a CUDA tensor, as the current stream sees it; raises TIMEOUT at the deadline."""
    host = pinned(tensor)
    host.copy_(tensor, non_blocking=True)
    _settle(_cuda.current_stream(tensor.device))
    return host


class Streams:
    """One stream per device for the copies of a process group, and the order of its operations among the caller's."""

    def __init__(self, timeout_s: float) -> None:
        """Take the deadline of operations that have none of their own."""
        self._timeout_s = timeout_s
        self._streams: dict[torch.device, Any] = {}

    def after_callers(self, device: torch.device, name: str, operation: Operation) -> Operation:
        """Return the operation, made to run after what is queued now on the current stream of the device.

        It waits for its own copies before it returns. Raises during the capture of a CUDA graph.
        """
        current = _cuda.current_stream(device)
        with torch.cuda.device(device):
            if torch.cuda.is_current_stream_capturing():
                raise CollectiveCoreError(
                    Result.INVALID_USAGE,
                    f"{name} cannot be captured in a CUDA graph: the host takes part in it. Call it outside",
                )
            ready = None
            if not current.query():
                ready = _cuda.Event()
                ready.record(current)
        if device not in self._streams:
            self._streams[device] = _cuda.Stream(device)
        stream = self._streams[device]

        def run(limit: float | None) -> list[Any]:
            _deadlines.timeout_s = self._timeout_s if limit is None else limit
            if ready is not None:
                stream.wait_event(ready)
            with torch.cuda.stream(stream):
                result = operation(limit)
                _settle(stream)
            return result

        return run


def _settle(stream: Any) -> None:
    """Return when all work of a stream has ended; raise TIMEOUT at the deadline of this thread's operation."""
    await_end(stream.query, stream.device, getattr(_deadlines, "timeout_s", None))


def await_end(has_ended: Callable[[], bool], device: torch.device | None, timeout_s: float | None) -> None:
    """Return when work on a device has come to its end; raise TIMEOUT at the deadline."""
    begin = time.monotonic()
    while not has_ended():
        waited = time.monotonic() - begin
        if timeout_s is not None and waited > timeout_s:
            raise CollectiveCoreError(
                Result.TIMEOUT,
                f"{device} did not finish the work queued before this call within {timeout_s:g} s: "
                "look for a kernel that hangs, or raise the timeout",
            )
        time.sleep(0 if waited < _LOOK_S else _SLEEP_S)
