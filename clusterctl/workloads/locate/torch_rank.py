"""A rank of ``locate`` with torch: its GPU or CPU, over NCCL, Gloo or collective_core."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from clusterctl.workloads import rank_values, ranks
from clusterctl.workloads.exchange import Message, TorchGather, seconds_each
from clusterctl.workloads.locate import cpu
from clusterctl.workloads.locate.fleet import RankFleet
from clusterctl.workloads.locate.tools import ExchangePart, OwnWork, T
from clusterctl.workloads.places import Place

_GPU_BYTES, _GPU_ITERS, _GPU_WINDOW_S = 64 << 20, 20, 1.5
_GPU_GEMM, _CPU_GEMM = 8192, 256
_GPU_COPY_BYTES, _HOST_BYTES = 1 << 30, 256 << 20
_INTERFACE = {"gloo": "GLOO_SOCKET_IFNAME", "ccore": "CCORE_SOCKET_IFNAME"}


class TorchRank:
    """See :class:`RankTools`."""

    def __init__(self, place: Place, backend: str, message_bytes: int | None, timeout_s: float) -> None:
        """Join the process group; ``message_bytes`` None: the default of the device."""
        self._device = ranks.choose_device(place, "auto" if backend != "gloo" else "cpu")
        ranks.use_own_cores(place)
        ranks.join(place, backend, self._device, timeout_s)
        self._backend, self._on_gpu = backend, self._device.type == "cuda"
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = ranks.device_name(self._device).partition(" ")[2] if self._on_gpu else cpu.name()
        self.message_bytes = message_bytes or (_GPU_BYTES if self._on_gpu else cpu.MESSAGE_BYTES)
        self.iters = _GPU_ITERS if self._on_gpu else cpu.ITERS
        self.window_s = _GPU_WINDOW_S if self._on_gpu else cpu.WINDOW_S
        self._send = torch.zeros(self.message_bytes, dtype=torch.uint8, device=self._device)
        self._receive = torch.empty_like(self._send)
        self._group: Any = None
        self._bytes = TorchGather(self._device)

    def use_rails(self, fleet: RankFleet, rails: Sequence[str]) -> None:
        """Make a process group of each place over its interface."""
        for place in range(fleet.places):
            members = fleet.ranks_of_place(place)
            if self.rank in members:
                os.environ[_INTERFACE[self._backend]] = rails[place % len(rails)]
            made = dist.new_group(members)
            self._group = made if self.rank in members else self._group

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        dist.barrier()

    def gathered(self, value: object, read: Callable[[object], T]) -> list[T]:
        """Return the value of each rank."""
        return rank_values.gather(self._bytes, value, read)

    def exchange(self, peer: int, iters: int, part: ExchangePart) -> float:
        """Exchange messages, and return the seconds of one."""
        return seconds_each(self._messages(part), peer, iters, self._device, self._group)

    def _messages(self, part: ExchangePart) -> list[Message]:
        """Return what is sent and received, step by step."""
        if part is ExchangePart.SEND:
            return [(self._send, None), (None, self._receive[:1])]
        if part is ExchangePart.RECEIVE:
            return [(None, self._receive), (self._send[:1], None)]
        return [(self._send, self._receive)]

    def own_work(self) -> OwnWork:
        """Return a matrix multiplication and copies."""
        device, size = self._device, _GPU_GEMM if self._on_gpu else _CPU_GEMM
        copied = _GPU_COPY_BYTES if self._on_gpu else cpu.COPY_BYTES
        left = torch.randn(size, size, device=device, dtype=torch.bfloat16 if self._on_gpu else torch.float32)
        right, product = torch.randn_like(left), torch.empty_like(left)
        source = torch.zeros(copied, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        found: OwnWork = {
            "gemm": (lambda: torch.matmul(left, right, out=product), 2.0 * size**3),
            "memory": (lambda: target.copy_(source), 2.0 * copied),
        }
        if self._on_gpu:
            host = torch.zeros(_HOST_BYTES, dtype=torch.uint8).pin_memory()
            on_device = torch.empty(_HOST_BYTES, dtype=torch.uint8, device=device)
            found["host-to-device"] = (lambda: on_device.copy_(host, non_blocking=True), float(_HOST_BYTES))
            found["device-to-host"] = (lambda: host.copy_(on_device, non_blocking=True), float(_HOST_BYTES))
        return found

    def finish(self) -> None:
        """Wait for the GPU."""
        if self._on_gpu:
            torch.cuda.synchronize(self._device)

    def leave(self) -> None:
        """Destroy the process group."""
        dist.destroy_process_group()
