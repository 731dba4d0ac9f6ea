"""all_reduce of large CUDA tensors by cc_cpu_reduce: chunk by chunk, both directions of PCIe at once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from collective_core.communicator import Buffer, Communicator, Redop
from collective_core.cpu_reduce import CpuReduce

# Any: torch's stubs leave its events and streams untyped.
_cuda: Any = torch.cuda

# Below it one copy in each direction is faster than chunks. All ranks must have the same value.
SMALLEST_BYTES = 8 << 20


class CudaReduce:
    """The pipelines of a process group, one per device, made at the first use."""

    def __init__(self, communicator: Communicator) -> None:
        """Take the communicator, which must outlive this."""
        self._communicator = communicator
        self._pipelines: dict[torch.device, tuple[CudaCopies, CpuReduce]] = {}

    def run(self, tensor: torch.Tensor, buffer: Buffer, redop: Redop, limit: float | None) -> None:
        """Reduce a contiguous CUDA tensor in place; `buffer` is its memory."""
        if tensor.device not in self._pipelines:
            copies = CudaCopies(tensor.device)
            self._pipelines[tensor.device] = copies, CpuReduce(self._communicator, engine=copies)
        copies, pipeline = self._pipelines[tensor.device]
        copies.use(tensor)
        pipeline.run(buffer, op=redop, timeout_s=limit)

    def release(self) -> None:
        """Free the staging memory; nothing may run."""
        for copies, pipeline in self._pipelines.values():
            copies.release()
            pipeline.destroy()
        self._pipelines.clear()


class CudaCopies:
    """The CopyEngine between one CUDA tensor and the staging buffers of a CpuReduce."""

    def __init__(self, device: torch.device) -> None:
        """Make two streams on the device."""
        self._down, self._up = _cuda.Stream(device), _cuda.Stream(device)
        self._bytes = torch.empty(0, dtype=torch.uint8)
        self._address = 0
        self._events: dict[int, Any] = {}
        self._next = 0
        self._pinned: dict[int, int] = {}
        self._cudart = _cuda.cudart()

    def use(self, tensor: torch.Tensor) -> None:
        """Take the tensor that the next run reads and writes, after what the current stream has queued for it."""
        # Copies back need no wait: each follows the copy of the same chunk to the host.
        self._down.wait_stream(_cuda.current_stream(tensor.device))
        self._bytes = tensor.view(-1).view(torch.uint8)
        self._address = tensor.data_ptr()

    def start_to_host(self, host: int, device: int, size_bytes: int) -> int:
        """Start a copy to the host; return its number."""
        return self._start(
            self._down,
            lambda: self._host(host, size_bytes).copy_(self._part(device, size_bytes), non_blocking=True),
        )

    def start_to_device(self, device: int, host: int, size_bytes: int) -> int:
        """Start a copy to the device; return its number."""
        return self._start(
            self._up,
            lambda: self._part(device, size_bytes).copy_(self._host(host, size_bytes), non_blocking=True),
        )

    def poll(self, copy: int) -> bool:
        """Return whether a copy has ended; raise what CUDA raises if it failed."""
        if not self._events[copy].query():
            return False
        del self._events[copy]
        return True

    def release(self) -> None:
        """Unpin the staging buffers, which are freed after this; no copy may be under way."""
        for address in self._pinned:
            self._cudart.cudaHostUnregister(address)
        self._pinned.clear()
        self._events.clear()
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def _start(self, stream: Any, copy: Callable[[], object]) -> int:
        event = _cuda.Event()
        with torch.cuda.stream(stream):
            copy()
            event.record(stream)
        self._next += 1
        self._events[self._next] = event
        return self._next

    def _part(self, address: int, size_bytes: int) -> torch.Tensor:
        begin = address - self._address
        return self._bytes[begin : begin + size_bytes]

    def _host(self, address: int, size_bytes: int) -> torch.Tensor:
        # Without pinned memory a copy passes through the driver's own buffers and blocks; it is still right.
        if self._pinned.get(address, 0) < size_bytes:
            if self._pinned.pop(address, 0):
                self._cudart.cudaHostUnregister(address)
            if int(self._cudart.cudaHostRegister(address, size_bytes, 0)) == 0:
                self._pinned[address] = size_bytes
        return torch.frombuffer((ctypes.c_char * size_bytes).from_address(address), dtype=torch.uint8)
