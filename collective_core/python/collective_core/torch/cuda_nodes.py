"""all_reduce of CUDA tensors between nodes, by top-k or dense, by libcollective_core_cuda.so.

What the ranks of a node have is summed on its GPUs; only a rank's part of that sum, or of top-k its payload, goes
through host memory to the other nodes.
"""

from __future__ import annotations

import ctypes
import logging
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_size_t, c_void_p, sizeof
from functools import cache
from typing import Any

import torch

from collective_core import _lib, affinity, environment
from collective_core.communicator import Buffer, Communicator, Redop
from collective_core.errors import CollectiveCoreError, Result
from collective_core.handle import milliseconds
from collective_core.topk import Residual, ResidualState, Topk
from collective_core.torch.cuda_library import LIBRARY_NAME, check, declared

_logger = logging.getLogger("collective_core")

_SIGNATURES: dict[str, tuple[object, ...]] = {
    "cc_cuda_nodes_create": (c_void_p, c_void_p, POINTER(c_void_p)),
    "cc_cuda_nodes_all_reduce": (
        *(c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p),
        c_int64,
    ),
    "cc_cuda_nodes_topk_all_reduce": (
        *(c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int),
        *(POINTER(_lib.TopkOptions), c_void_p, c_void_p, c_int64),
    ),
    "cc_cuda_nodes_destroy": (c_void_p,),
    "cc_cuda_residual_create": (POINTER(c_void_p),),
    "cc_cuda_residual_reset": (c_void_p,),
    "cc_cuda_residual_get_info": (c_void_p, POINTER(_lib.ResidualInfo)),
    "cc_cuda_residual_read": (c_void_p, c_void_p),
    "cc_cuda_residual_destroy": (c_void_p,),
}


@cache
def _library() -> ctypes.CDLL:
    return declared(_SIGNATURES)


class DeviceResidual:
    """cc_cuda_residual: what this rank has not sent yet of one tensor, in the memory of its GPU."""

    def __init__(self, device: torch.device) -> None:
        """Start with zero; memory is taken at the first use."""
        self.device = device
        self.handle = c_void_p()
        check(_library().cc_cuda_residual_create(byref(self.handle)))

    def reset(self) -> None:
        """Make it zero."""
        check(_library().cc_cuda_residual_reset(self.handle))

    def state(self) -> ResidualState:
        """Return a copy of what it holds; waits for the GPU."""
        info = _lib.ResidualInfo(size=sizeof(_lib.ResidualInfo))
        check(_library().cc_cuda_residual_get_info(self.handle, byref(info)))
        values = (c_float * info.shard_count)()
        if info.shard_count:
            with torch.cuda.device(self.device):
                check(_library().cc_cuda_residual_read(self.handle, values))
        return ResidualState(info.count, info.shard_begin, info.steps, tuple(values))

    def __del__(self) -> None:
        """Free it."""
        handle, self.handle = getattr(self, "handle", None), c_void_p()
        if handle:
            _library().cc_cuda_residual_destroy(handle)


class CudaNodes:
    """The way of a process group between its nodes. All ranks decide alike, at the first use."""

    def __init__(self, communicator: Communicator) -> None:
        """Take the communicator, which must outlive this."""
        self._communicator = communicator
        self._device: torch.device | None = None
        self._handle: c_void_p | None = None

    def topk_all_reduce(
        self,
        tensor: torch.Tensor,
        buffer: Buffer,
        residual: Residual | None,
        topk: Topk,
        redop: Redop,
        limit: float | None,
    ) -> bool:
        """Reduce a contiguous tensor (`buffer` is its memory) in place; False if the library cannot, on any rank.

        Queues on the current stream what gives the result.
        """
        if not self._is_ready(tensor.device):
            return False
        handle = None
        if residual is not None:
            on_device = residual.on_device
            if not isinstance(on_device, DeviceResidual):
                on_device = residual.on_device = DeviceResidual(tensor.device)
            handle = on_device.handle
        check(
            _library().cc_cuda_nodes_topk_all_reduce(
                self._handle, buffer.address, buffer.address, buffer.count, int(buffer.dtype), int(redop),
                byref(topk.as_options()), handle, _stream(tensor.device), milliseconds(limit),
            )
        )  # fmt: skip
        return True

    def all_reduce(self, tensor: torch.Tensor, buffer: Buffer, redop: Redop, limit: float | None) -> bool:
        """Reduce a contiguous tensor as above, without leaving anything out."""
        if not self._is_ready(tensor.device):
            return False
        check(
            _library().cc_cuda_nodes_all_reduce(
                self._handle, buffer.address, buffer.address, buffer.count, int(buffer.dtype), int(redop),
                _stream(tensor.device), milliseconds(limit),
            )
        )  # fmt: skip
        return True

    def release(self) -> None:
        """Free the memory; nothing may run."""
        if self._handle is not None:
            _library().cc_cuda_nodes_destroy(self._handle)
            self._handle = None

    def _is_ready(self, device: torch.device) -> bool:
        if self._device is None:
            self._device = device
            self._attach()
        if self._handle is None:
            return False
        if device != self._device:
            raise CollectiveCoreError(
                Result.INVALID_USAGE,
                f"this group reduces tensors of {self._device}, this one is on {device}; use a group of its own",
            )
        return True

    def _attach(self) -> None:
        """Meet the other ranks; make the handle if all of them can."""
        reason = self._own_refusal()
        own = (ctypes.c_ubyte * 1)(0 if reason else 1)
        every = (ctypes.c_ubyte * self._communicator.size)()
        self._communicator.all_gather(own, every)
        if all(every):
            handle = c_void_p()
            with torch.cuda.device(self._device):
                check(_library().cc_cuda_nodes_create(self._communicator._live(), None, byref(handle)))
            self._handle = handle
        way = (
            "on the GPU"
            if self._handle
            else f"on the CPUs: {reason or 'another rank cannot use ' + LIBRARY_NAME}"
        )
        _logger.info("collective_core reduces between nodes for %s %s", self._device, way)
        address = affinity.address_of_gpu(torch.cuda.get_device_properties(self._device))
        if address is not None and _logger.isEnabledFor(logging.INFO):
            _logger.info("collective_core GPU %s", affinity.describe_gpu(address))

    def _own_refusal(self) -> str:
        path = environment.text("CCORE_CUDA_PATH")
        if path in ("host", "staged"):
            return f"CCORE_CUDA_PATH is {path}"
        peers = (self._communicator.peer(rank) for rank in range(self._communicator.size))
        if not path and any(peer.local_size > 1 for peer in peers):
            return "a node has several ranks, whose GPUs are used together only if CCORE_CUDA_PATH is auto"
        try:
            _library()
        except (OSError, AttributeError) as error:
            return f"{LIBRARY_NAME} cannot be used: {error}"
        return ""


def _stream(device: torch.device) -> int:
    stream: Any = torch.cuda.current_stream(device)
    return int(stream.cuda_stream)
