"""How a top-k all_reduce compresses, and what it has not sent yet."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p, sizeof
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from collective_core import _lib
from collective_core.errors import CollectiveCoreError, Result


class Method(IntEnum):
    """cc_topk_method."""

    EXACT = 1
    MSTOPK = 2


@dataclass(frozen=True, slots=True)
class Topk:
    """cc_topk_options: the same on all ranks. None: CCORE_TOPK_RATIO, _THRESHOLD, _FP16, else the default.

    `ratio` of each shard is sent, data below `threshold_bytes` is reduced densely, and `half_values` sends float16
    values, whose rounding error stays in the residual.
    """

    ratio: float | None = None
    threshold_bytes: int | None = None
    method: Method = Method.EXACT
    half_values: bool | None = None

    def __post_init__(self) -> None:
        """Refuse a ratio that the C ABI would take for "none given"."""
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise CollectiveCoreError(
                Result.INVALID_ARGUMENT, f"ratio {self.ratio} is not above 0 and at most 1"
            )

    def as_options(self) -> _lib.TopkOptions:
        """Return the struct of the C ABI."""
        return _lib.TopkOptions(
            size=sizeof(_lib.TopkOptions),
            ratio=self.ratio or 0.0,
            # 0 stands for the default there; from one byte on is everything.
            threshold_bytes=0 if self.threshold_bytes is None else max(1, self.threshold_bytes),
            method=int(self.method),
            values=0 if self.half_values is None else 1 + int(self.half_values),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a top-k all_reduce does on this rank: the shard that it owns, and how many elements of it are sent."""

    compressed: bool  # False: it is a dense all_reduce
    nodes: int
    shards: int
    shard_begin: int
    shard_count: int
    kept: int


class OnDevice(Protocol):
    """A residual in the memory of a GPU."""

    def reset(self) -> None:
        """Make it zero."""

    def state(self) -> ResidualState:
        """Return a copy of what it holds."""


@dataclass(frozen=True, slots=True)
class ResidualState:
    """What a residual holds: elements of its tensor, this rank's shard of it, and compressed operations so far."""

    count: int
    shard_begin: int
    steps: int
    values: tuple[float, ...]


class Residual:
    """What this rank has not sent yet of one tensor; goes from one `topk_all_reduce` of it to the next."""

    def __init__(self) -> None:
        """Start with zero; memory is taken at the first use."""
        self._library = _lib.library()
        self.handle = c_void_p()
        self.on_device: OnDevice | None = None  # instead of the handle's, for a tensor on a GPU
        _lib.check(self._library.cc_residual_create(byref(self.handle)))

    def reset(self) -> None:
        """Make it zero."""
        _lib.check(self._library.cc_residual_reset(self.handle))
        if self.on_device is not None:
            self.on_device.reset()

    def state(self) -> ResidualState:
        """Return a copy of what it holds."""
        if self.on_device is not None:
            return self.on_device.state()
        info = _lib.ResidualInfo(size=ctypes.sizeof(_lib.ResidualInfo))
        _lib.check(self._library.cc_residual_get_info(self.handle, byref(info)))
        values = tuple(info.values[: info.shard_count]) if info.shard_count else ()
        return ResidualState(info.count, info.shard_begin, info.steps, values)

    def __del__(self) -> None:
        """Free it."""
        handle, self.handle = getattr(self, "handle", None), c_void_p()
        if handle:
            self._library.cc_residual_destroy(handle)
