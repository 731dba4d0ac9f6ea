"""What a rank of ``locate`` measures with: torch, or collective_core alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol, TypeVar

from clusterctl.workloads.locate.fleet import RankFleet

T = TypeVar("T")

OwnWork = dict[str, tuple[Callable[[], object], float]]
"""What a rank measures alone: a call and its amount (floating-point operations, or bytes)."""


class ExchangePart(Enum):
    """What a rank does in an exchange."""

    BOTH = "both"
    SEND = "send"
    RECEIVE = "receive"


class RankTools(Protocol):
    """The rank's messages, its work, and what it shares with all other ranks."""

    rank: int
    size: int
    device: str
    """The product name of its GPU or CPU: only ranks with the same device are compared with each other."""
    message_bytes: int
    iters: int
    """Exchanges that are timed together."""
    window_s: float
    """Seconds of each measurement of the rank alone."""

    def use_rails(self, fleet: RankFleet, rails: Sequence[str]) -> None:
        """Exchange messages over the interface of this rank's place."""

    def barrier(self) -> None:
        """Return when all ranks have called it."""

    def gathered(self, value: object, read: Callable[[object], T]) -> list[T]:
        """Return the value of each rank, see :func:`clusterctl.workloads.rank_values.gather`."""

    def exchange(self, peer: int, iters: int, part: ExchangePart) -> float:
        """Exchange messages with a peer ``iters`` times in a row, both directions at once unless ``part`` is one;
        return the seconds of one.

        In one direction the other end confirms each message: otherwise a message could wait in the receiver's buffers
        before its clock starts.
        """

    def own_work(self) -> OwnWork:
        """Return what the rank measures alone, by its name."""

    def finish(self) -> None:
        """Return when the device has done its work."""

    def leave(self) -> None:
        """Leave the other ranks."""
