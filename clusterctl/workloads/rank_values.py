"""Exchange small values between ranks as bounded JSON, without running anything that another rank sends.

The ``*_object`` calls of torch and Horovod unpickle what they receive, so a rank on a compromised node could run code
as every other rank. Here ranks exchange sizes first, then bytes of JSON. A value that does not fit is refused by the
number of its rank, and every rank that received it ends.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from clusterctl.text.foreign import NotUnderstood, json_value
from clusterctl.text.visible import ACTING_IN_A_LINE
from clusterctl.workloads.places import RankError

SMALL_BYTES = 4 << 10
"""The size of a value of a few fields."""
REPORT_BYTES = 128 << 10
"""The size of a report on variables, files and operations."""
HOST_CHARACTERS = 255
DEVICE_CHARACTERS = 200
PATH_CHARACTERS = 1000
_MOST_NUMBER = 1e18

T = TypeVar("T")


class ByteGather(Protocol):
    """Bring bytes of all ranks to all ranks."""

    def sizes(self, own: int) -> list[int]:
        """Return the whole number of each rank."""

    def parts(self, own: bytes, sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes of each rank, which have these sizes."""


def gather(
    ranks: ByteGather, value: object, read: Callable[[object], T], most_bytes: int = SMALL_BYTES
) -> list[T]:
    """Return the value of each rank, as ``read`` returns it; collective.

    ``read`` takes a value of JSON and raises NotUnderstood for any that it does not expect. Raise RankError, on every
    rank, for the value of a rank that is longer than ``most_bytes``, is not JSON, or that ``read`` rejects.
    """
    own = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    sizes = ranks.sizes(len(own))
    for rank, size in enumerate(sizes):
        if not 0 < size <= most_bytes:
            raise refused(rank, f"expected 1 to {most_bytes} bytes, not {size}")
    found = []
    for rank, part in enumerate(ranks.parts(own, sizes)):
        try:
            found.append(read(json_value(part, most_bytes=most_bytes)))
        except NotUnderstood as error:
            raise refused(rank, str(error)) from None
    return found


def refused(rank: int, why: str) -> RankError:
    """Return the error for the value that a rank sent."""
    shown = ACTING_IN_A_LINE.sub("?", why)
    return RankError(
        f"rank {rank} sent a value that is not valid here: {shown:.300}; check that its node runs the same "
        "programs as the other nodes, and that they are unchanged"
    )


def array(value: object, length: int | None = None) -> list[Any]:
    """Return the items of an array, whose length may be given; raise NotUnderstood for anything else."""
    if not isinstance(value, list) or length not in (None, len(value)):
        raise NotUnderstood(f"expected an array{f' of {length} items' if length is not None else ''}")
    return value


def members(value: object) -> dict[str, Any]:
    """Return the members of an object; raise NotUnderstood for anything else."""
    if not isinstance(value, dict):
        raise NotUnderstood("expected an object")
    return value


def text(value: object, most: int) -> str:
    """Return one line of at most ``most`` visible characters; raise NotUnderstood for anything else."""
    if not isinstance(value, str) or len(value) > most or ACTING_IN_A_LINE.search(value):
        raise NotUnderstood(f"expected one line of at most {most} visible characters")
    return value


def flag(value: object) -> bool:
    """Return true or false; raise NotUnderstood for anything else."""
    if not isinstance(value, bool):
        raise NotUnderstood("expected true or false")
    return value


def whole(value: object, most: int) -> int:
    """Return a whole number from 0 to ``most``; raise NotUnderstood for anything else."""
    if type(value) is not int or not 0 <= value <= most:
        raise NotUnderstood(f"expected a whole number from 0 to {most}")
    return value


def number(value: object) -> float:
    """Return a number from 0 to 1e18; raise NotUnderstood for anything else."""
    if type(value) not in (int, float) or not 0 <= value <= _MOST_NUMBER:  # type: ignore[operator]
        raise NotUnderstood("expected a number from 0 to 1e18")
    return float(value)  # type: ignore[arg-type]


def bytes_at(address: int, size: int) -> bytes:
    """Return bytes of host memory, such as those of a tensor; torch's own way needs numpy."""
    return ctypes.string_at(address, size)
