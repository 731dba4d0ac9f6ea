"""Where a call of Horovod's API runs: through host memory, on the GPU of its tensors, or on GPUs inside the nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from collective_core.communicator import Communicator
from collective_core.horovod.requests import Kind, Request
from collective_core.torch.cuda import await_end
from collective_core.torch.cuda_group import CudaGroup
from collective_core.torch.cuda_nodes import CudaNodes
from collective_core.torch.nodes_way import NodesWay
from collective_core.torch.ways import HostWay, Way
from collective_core.usage import UsageRecorder

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
        self._nodes = CudaNodes(communicator, deadline_s)
        self._streams: dict[torch.device, Any] = {}

    def run(self, request: Request, body: Body) -> list[torch.Tensor]:
        """Run the body after the request's events; return its results when they are there for every stream.

        Which way it takes is part of what the ranks have agreed on: all of them, or none, have CUDA tensors.
        """
        device = request.device()
        if device is None:
            return self._on_host(request, body)
        if self._serves(device):
            return self._on_device(device, request, body)
        if request.kind is Kind.ALLREDUCE:
            return self._between_nodes(device, request, body)
        return self._on_host(request, body)

    def _on_host(self, request: Request, body: Body) -> list[torch.Tensor]:
        for event in request.events:
            event.synchronize()
        return body(HostWay(self._communicator, None))

    def _on_device(self, device: torch.device, request: Request, body: Body) -> list[torch.Tensor]:
        with _cuda.stream(self._stream_after(request, device)):
            work = self._cuda.launch(
                f"horovod {request.kind.value}", body, request.tensors, device, None, caller_waits=True
            )
            work.wait(timedelta(seconds=self._deadline_s))
            return work.result()

    def _between_nodes(self, device: torch.device, request: Request, body: Body) -> list[torch.Tensor]:
        stream = self._stream_after(request, device)
        with _cuda.stream(stream):
            results = body(NodesWay(self._communicator, self._deadline_s, self._nodes))
            await_end(stream, device, self._deadline_s)
            return results

    def _stream_after(self, request: Request, device: torch.device) -> Any:
        """Return the stream of a device, held back until the request's tensors are there."""
        if device not in self._streams:
            self._streams[device] = _cuda.Stream(device)
        for event in request.events:
            self._streams[device].wait_event(event)
        return self._streams[device]

    def _serves(self, device: torch.device) -> bool:
        """Return whether the library serves the GPUs of all ranks, of one node; at the first call they meet."""
        if not self._cuda.has_met:
            self._cuda.meet(device, None)
            # Where zeros are made for a rank that has joined.
            _cuda.set_device(device)
        return self._cuda.is_used

    def usage_recorder(self) -> UsageRecorder:
        """Return a recorder of the operations of the set."""
        return UsageRecorder(self._communicator, self._nodes.calls)

    def release(self) -> None:
        """Free the memory on the GPU."""
        self._nodes.release()
        self._cuda.release()
