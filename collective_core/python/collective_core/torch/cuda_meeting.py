"""The meeting of a group's ranks at their first CUDA tensor: their handle, or why they cannot have one."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import torch

from collective_core import environment
from collective_core.communicator import Communicator
from collective_core.enums import CudaPath
from collective_core.errors import CollectiveCoreError, Result
from collective_core.torch.cuda_library import LIBRARY_NAME, CudaHandle, library

# Any: torch's stubs leave its events and streams untyped.
_cuda: Any = torch.cuda

_GOODBYE_S = 2.0
# Errors of cc_cuda_create that mean "not here", on all ranks; others are faults.
_NOT_HERE = (Result.SYSTEM, Result.INVALID_ARGUMENT, Result.INVALID_USAGE)


class CudaMeeting:
    """What the ranks have agreed on: one device of each, and the path. Nothing before they have met."""

    def __init__(self, communicator: Communicator, timeout_s: float) -> None:
        """Take the communicator of the group, which must outlive this, and the group's deadline."""
        self._communicator = communicator
        self._timeout_s = timeout_s
        # Of its own, so that the meetings of the handle are apart from the operations of the worker.
        self._part: Communicator | None = None
        self._refusal = ""  # after the meeting: why the ranks cannot have a handle
        self.handle: CudaHandle | None = None
        self.path = CudaPath.AUTO
        self.device: torch.device | None = None
        self.index = 0  # of the device
        self.rank = communicator.rank

    @property
    def has_met(self) -> bool:
        """Whether the ranks have met."""
        return self.device is not None

    def describe(self) -> str:
        """Return the way of CUDA tensors in one line."""
        if not self.has_met:
            return "no CUDA tensor so far"
        if self.handle is None:
            return f"staged through pinned host memory: {self._refusal}"
        return self.handle.describe()

    def path_name(self) -> str:
        """Return "stream", "kernel" or "host" of the library, "staged" without it, "" before the first tensor."""
        if not self.has_met:
            return ""
        return "staged" if self.handle is None else self.path.name.lower()

    def meet(self, device: torch.device, limit: float | None) -> None:
        """Meet the other ranks on the host, all with their own device; collective over the communicator."""
        self.device, self.index = device, device.index
        self._refusal = self._own_refusal()
        able = (ctypes.c_ubyte * 1)(0 if self._refusal else 1)
        every = (ctypes.c_ubyte * self._communicator.size)()
        self._communicator.all_gather(able, every, limit)
        if all(every):
            self._create(device)
        elif not self._refusal:
            self._refusal = (
                f"rank {list(every).index(0)} does not use {LIBRARY_NAME}; "
                "with CCORE_DEBUG=INFO, its log has the reason"
            )
        if self.handle is not None:
            self.path = self.handle.path()

    def _own_refusal(self) -> str:
        if environment.text("CCORE_CUDA_PATH") == "staged":
            return "CCORE_CUDA_PATH is staged"
        peers = map(self._communicator.peer, range(self._communicator.size))
        if (nodes := len({peer.node for peer in peers})) > 1:
            return f"the ranks are on {nodes} nodes, and a path on the device serves one"
        try:
            library()
        except (OSError, AttributeError) as error:
            return f"{LIBRARY_NAME} cannot be used: {error}"
        return ""

    def _create(self, device: torch.device) -> None:
        part = self._communicator.split(0, self._communicator.rank)
        if part is None:
            raise CollectiveCoreError(Result.INTERNAL, "a split with a color made no communicator")
        try:
            with _cuda.device(device):
                self.handle = CudaHandle(part, self._timeout_s)
            self._part = part
        except CollectiveCoreError as error:
            part.destroy()
            if error.code not in _NOT_HERE:
                raise
            self._refusal = str(error)

    def live(self) -> CudaHandle:
        """Return the handle; raises CollectiveCoreError after release()."""
        if self.handle is None:
            raise CollectiveCoreError(Result.INVALID_USAGE, "the process group was destroyed")
        return self.handle

    def expect_device(self, device: torch.device, description: str) -> None:
        """Raise CollectiveCoreError if a tensor of another device came."""
        if device != self.device:
            raise CollectiveCoreError(
                Result.INVALID_USAGE,
                f"{description}: this group works on {self.device}, this tensor is on {device}; "
                "make a group of its own for it, or set CCORE_CUDA_PATH=staged on all ranks",
            )

    def abort(self) -> None:
        """End the operations of this rank on the device, and those of all ranks on the host."""
        for ending in (self.handle, self._part, self._communicator):
            if ending is not None:
                with contextlib.suppress(CollectiveCoreError):
                    ending.abort()

    def release(self, *, has_failed: bool) -> None:
        """Free everything; no operation may be under way, unless one has failed."""
        if self._part is not None and not has_failed:
            # A peer may still read what this rank has given.
            with contextlib.suppress(CollectiveCoreError):
                self._part.barrier(_GOODBYE_S)
        if self.handle is not None and self.device is not None:
            with _cuda.device(self.device):
                self.handle.destroy()
            self.handle = None
        if self._part is not None:
            self._part.destroy()
            self._part = None
