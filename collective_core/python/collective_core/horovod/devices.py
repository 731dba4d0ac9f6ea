"""Where a call of Horovod's API runs: through host memory, or on the GPU of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from collective_core.communicator import Communicator
from collective_core.horovod.requests import Request
from collective_core.torch.cuda_group import CudaGroup
from collective_core.torch.ways import HostWay, Way

# Any: torch's stubs leave its events and streams untyped.
_cuda: Any = torch.cuda

Body = Callable[[Way], list[torch.Tensor]]


class Devices:
    """The ways of a process set. Used by its thread alone, in the order on which its ranks agree."""

    def __init__(self, communicator: Communicator, deadline_s: float) -> None:
        """Take the communicator, which must outlive this."""
        self._communicator = communicator
        self._deadline_s = deadline_s
        self._cuda = CudaGroup(communicator, deadline_s)
        self._stream: Any = None

    def run(self, request: Request, body: Body) -> list[torch.Tensor]:
        """Run the body after the request's events; return its results when they are there for every stream.

        On the GPU if the tensors of all ranks are CUDA tensors, which is part of what they have agreed on.
        """
        device = request.device()
        if device is None or not self._serves(device):
            for event in request.events:
                event.synchronize()
            return body(HostWay(self._communicator, None))
        with _cuda.stream(self._stream):
            for event in request.events:
                self._stream.wait_event(event)
            work = self._cuda.launch(
                f"horovod {request.kind.value}", body, request.tensors, device, None, caller_waits=True
            )
            work.wait(timedelta(seconds=self._deadline_s))
            return work.result()

    def _serves(self, device: torch.device) -> bool:
        if not self._cuda.has_met:
            self._cuda.meet(device, None)
            # Where zeros are made for a rank that has joined.
            _cuda.set_device(device)
            if self._cuda.is_used:
                self._stream = _cuda.Stream(device)
        return self._cuda.is_used

    def release(self) -> None:
        """Free the memory on the GPU."""
        self._cuda.release()
