"""Spans in torch's profiler: one per operation, named `ccore:OPERATION`, with the shapes of its tensors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch

from collective_core.torch import BACKEND_NAME

# Any: names that torch's stubs do not export, unchanged since long before 2.4.
_autograd: Any = torch.autograd


def begin_span(name: str, tensors: Sequence[torch.Tensor]) -> torch.futures.Future[Any] | None:
    """Begin a span if this thread is being profiled; it ends when the future is given a result, on any thread.

    It is ended by a callback of the future, which keeps the profiler's state of this thread alive: a profile may be
    closed before the operation ends.
    """
    if not _autograd._profiler_enabled():
        return None
    span = _autograd._record_function_with_args_enter(f"{BACKEND_NAME}:{name}", *tensors)
    ended: torch.futures.Future[Any] = torch.futures.Future()
    torch.ops.profiler._call_end_callbacks_on_jit_fut(span, ended)
    return ended


def end_launch(span: torch.futures.Future[Any] | None) -> None:
    """End the span of an operation that a device goes on with after this call.

    On another thread: torch's profiler takes a span for asynchronous if it ends on another thread than it began.
    """
    if span is not None:
        ending = threading.Thread(target=span.set_result, args=(None,))
        ending.start()
        ending.join()
