"""Copies: within a device's memory, between the host and the device, and between two devices, in GB/s."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from clusterctl.workloads.device.measured import DeviceMeasured, short
from clusterctl.workloads.device.timing import Effort, median_s

_GPU_BYTES, _CPU_BYTES = 4 << 30, 8 << 20
_GPU_LINK_BYTES, _CPU_LINK_BYTES = 512 << 20, 8 << 20


def _buffer(size_bytes: int, device: torch.device) -> torch.Tensor:
    return torch.zeros(size_bytes, dtype=torch.uint8, device=device)


def within(device: torch.device, effort: Effort) -> Iterator[DeviceMeasured]:
    """Yield the rate of a copy in the device's own memory; the bytes read and the bytes written both count."""
    size_bytes = _CPU_BYTES
    if device.type == "cuda":
        size_bytes = min(_GPU_BYTES, torch.cuda.mem_get_info(device)[0] // 4 & ~0xFFFFF)
    source, target = _buffer(size_bytes, device), _buffer(size_bytes, device)
    seconds = median_s(device, lambda: target.copy_(source), effort)
    rate = short(2.0 * size_bytes / seconds / 1e9)
    yield DeviceMeasured("copy", rate, "GB/s", detail={"bytes": size_bytes, "counted": "read and written"})


def host_link(device: torch.device, effort: Effort, lock: Path | None, link: str) -> Iterator[DeviceMeasured]:
    """Yield the rates from pinned host memory to the device and back; ``link`` is the name of the link.

    The processes of a node's GPUs share ``lock`` and measure one after the other: GPUs behind one PCIe switch, and the
    host's memory, would limit each other.
    """
    gpu = device.type == "cuda"
    size_bytes = _GPU_LINK_BYTES if gpu else _CPU_LINK_BYTES
    host = torch.zeros(size_bytes, dtype=torch.uint8)
    if gpu:
        host = host.pin_memory()
    on_device = _buffer(size_bytes, device)
    ways: dict[str, Callable[[], object]] = {
        "h2d": lambda: on_device.copy_(host, non_blocking=True),
        "d2h": lambda: host.copy_(on_device, non_blocking=True),
    }
    with _locked(lock):
        for name, way in ways.items():
            rate = short(size_bytes / median_s(device, way, effort) / 1e9)
            yield DeviceMeasured(name, rate, "GB/s", detail={"bytes": size_bytes, "link": link})


@contextmanager
def _locked(path: Path | None) -> Iterator[None]:
    if path is None:
        yield
        return
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pairs(devices: Sequence[torch.device], effort: Effort) -> Iterator[DeviceMeasured]:
    """Yield the rate from each device to each other, one pair at a time."""
    gpu = devices[0].type == "cuda"
    size_bytes = _GPU_LINK_BYTES if gpu else _CPU_LINK_BYTES
    buffers = [(_buffer(size_bytes, device), _buffer(size_bytes, device)) for device in devices]
    for index, (source, _) in enumerate(buffers):
        for other, (_, target) in enumerate(buffers):
            if index == other:
                continue
            way = _copy(source, target)
            rate = short(size_bytes / median_s(devices[index], way, effort) / 1e9)
            peer = not gpu or torch.cuda.can_device_access_peer(devices[index], devices[other])
            first, second = (devices[i].index if gpu else i for i in (index, other))
            yield DeviceMeasured(
                f"{first}-{second}", rate, "GB/s",
                detail={"from": first, "to": second, "peer_access": peer, "bytes": size_bytes},
            )  # fmt: skip


def _copy(source: torch.Tensor, target: torch.Tensor) -> Callable[[], object]:
    return lambda: target.copy_(source, non_blocking=True)
