"""Exchange messages with other ranks over torch.distributed: timed ones between two ranks, bytes among all ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from clusterctl.workloads.rank_values import bytes_at

Message = tuple[Tensor | None, Tensor | None]
"""What is sent and what is received at the same time; None for a direction that is not used."""


def exchange(message: Message, to: int, source: int, group: Any = None) -> None:
    """Send to one rank and receive from one, which may be the same rank, and wait for both."""
    sent, received = message
    both = []
    # The receive is posted first: gloo announces it to the sender over the connection that carries the data. Behind a
    # large message, the announcement would arrive so late that the two directions follow each other at half the rate.
    if received is not None:
        both.append(dist.P2POp(dist.irecv, received, source, group))
    if sent is not None:
        both.append(dist.P2POp(dist.isend, sent, to, group))
    for work in dist.batch_isend_irecv(both):
        work.wait()


def seconds_each(
    messages: Sequence[Message], peer: int, iters: int, device: torch.device, group: Any = None
) -> float:
    """Exchange the messages with a peer ``iters`` times in a row, and return the seconds of one time."""
    # A send may end before its data has arrived. One byte each way makes both ranks start on a connection that is
    # empty, so that no rank waits for the rest of an earlier message.
    byte = torch.zeros(1, dtype=torch.uint8, device=device)
    meeting = byte, torch.empty_like(byte)
    exchange(meeting, peer, peer, group)
    _wait_for(device)
    started = time.perf_counter()
    for _ in range(iters):
        for message in messages:
            exchange(message, peer, peer, group)
    # A rank sends this byte when all messages have arrived, so that both ends measure the slower direction.
    exchange(meeting, peer, peer, group)
    _wait_for(device)
    return (time.perf_counter() - started) / iters


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class TorchGather:
    """Gather bytes over the process group, see :class:`clusterctl.workloads.rank_values.ByteGather`."""

    def __init__(self, device: torch.device) -> None:
        """Take the device of this rank; Gloo and collective_core move the bytes in host memory."""
        self._device = torch.device("cpu") if dist.get_backend() in ("gloo", "ccore") else device

    def sizes(self, own: int) -> list[int]:
        """Return the whole number of each rank."""
        mine = torch.tensor([own], dtype=torch.int64, device=self._device)
        return [int(size.item()) for size in self._gathered(mine)]

    def parts(self, own: bytes, sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes of each rank; shorter ones travel with zeros behind them."""
        padded = torch.frombuffer(bytearray(own.ljust(max(sizes), b"\0")), dtype=torch.uint8)
        found = [part.cpu() for part in self._gathered(padded.to(self._device))]
        return [bytes_at(part.data_ptr(), size) for part, size in zip(found, sizes, strict=True)]

    def _gathered(self, mine: Tensor) -> list[Tensor]:
        found = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(found, mine)
        return found
