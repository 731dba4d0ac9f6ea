"""all_reduce of CUDA tensors between nodes, by top-k or dense, by libcollective_core_cuda.so.

What the ranks of a node have is summed on its GPUs; only a rank's part of that sum, or of top-k its payload, goes
through host memory to the other nodes.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
    sizeof,
)
from functools import cache
from typing import Any

import torch

from collective_core import _lib, affinity, environment
from collective_core.call_counts import CallCounts
from collective_core.communicator import Buffer, Communicator, Redop
from collective_core.enums import CudaPath
from collective_core.errors import CollectiveCoreError, Result
from collective_core.handle import milliseconds
from collective_core.topk import Residual, ResidualState, Topk
from collective_core.torch.cuda import await_end
from collective_core.torch.cuda_library import LIBRARY_NAME, check, declared
from collective_core.torch.cuda_work import GRACE_S

_logger = logging.getLogger("collective_core")

# Any: torch's stubs leave its streams untyped.
_cuda: Any = torch.cuda


class _Info(ctypes.Structure):
    """cc_cuda_nodes_info."""

    _fields_ = [
        ("size", c_size_t),
        ("inside", c_int32),
        ("reserved", c_int32),
        ("reductions", c_uint64),
        ("selections", c_uint64),
    ]


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
    "cc_cuda_nodes_get_info": (c_void_p, POINTER(_Info)),
    "cc_cuda_nodes_poll": (c_void_p, POINTER(c_char_p)),
    "cc_cuda_nodes_abort": (c_void_p,),
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

    def __init__(self, communicator: Communicator, timeout_s: float | None = None) -> None:
        """Take the communicator, which must outlive this, and the deadline of calls that have none of their own."""
        self._communicator = communicator
        self._timeout_s = timeout_s
        self._handle: c_void_p | None = None
        self._refusal = ""  # after the ranks have met: why they cannot use their GPUs
        # Whether all ranks request it for all_reduce; None before they have exchanged this.
        self._requested: bool | None = None
        self._paths: list[CudaPath] = []  # between the ranks of each rank's node
        self._node_count = len({communicator.peer(rank).node for rank in range(communicator.size)})
        self._limits = communicator.limits()
        self.device: torch.device | None = None
        self.calls = CallCounts()

    def takes(self, tensor: torch.Tensor) -> bool:
        """Return whether `all_reduce` is the way of a tensor; at the first one that may be, the ranks meet."""
        size_bytes = _bytes_of(tensor)
        return (
            self._limits.allow_device_2d(size_bytes)
            and self._is_requested()
            and self._is_ready(tensor.device)
            and self._limits.allow_device_2d(size_bytes, self._paths)
        )

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

        Returns when the result is there.
        """
        if not self._is_ready(tensor.device):
            return False
        handle = None
        if residual is not None:
            on_device = residual.on_device
            if not isinstance(on_device, DeviceResidual):
                on_device = residual.on_device = DeviceResidual(tensor.device)
            handle = on_device.handle
        dense_before = self._info().reductions
        self._run(
            tensor,
            limit,
            lambda stream, timeout_ms: _library().cc_cuda_nodes_topk_all_reduce(
                self._handle, buffer.address, buffer.address, buffer.count, int(buffer.dtype), int(redop),
                byref(topk.as_options()), handle, stream, timeout_ms,
            ),
        )  # fmt: skip
        is_dense = self._info().reductions > dense_before
        self.calls.add("topk_all_reduce", _bytes_of(tensor), "2d_gpu" if is_dense else "gpu")
        return True

    def all_reduce(self, tensor: torch.Tensor, buffer: Buffer, redop: Redop, limit: float | None) -> bool:
        """Reduce a contiguous tensor as above, without leaving anything out."""
        if not self._is_ready(tensor.device):
            return False
        self._run(
            tensor,
            limit,
            lambda stream, timeout_ms: _library().cc_cuda_nodes_all_reduce(
                self._handle, buffer.address, buffer.address, buffer.count, int(buffer.dtype), int(redop),
                stream, timeout_ms,
            ),
        )  # fmt: skip
        self.calls.add("all_reduce", _bytes_of(tensor), "2d_gpu")
        return True

    @property
    def selections(self) -> int:
        """How many selections this rank's GPU has made, as the library counts them; not while one runs."""
        return int(self._info().selections) if self._handle is not None else 0

    def describe(self) -> str:
        """Return the way of CUDA tensors between nodes in one line."""
        if self._node_count == 1:
            return "one node"
        if self.device is None and self._requested is False:
            return "on the CPUs: CCORE_CUDA_PATH is not set on all ranks; auto lets the GPUs take part"
        if self.device is None:
            return "no operation that the GPUs could take part in so far"
        if self._handle is None:
            return f"on the CPUs: {self._refusal}"
        names = sorted({path.name.lower() for path in self._paths if path is not CudaPath.AUTO})
        return (
            f"on the GPUs, inside nodes by {' and '.join(names)}"
            if names
            else "on the GPUs, one rank per node"
        )

    def abort(self) -> None:
        """End what runs. From any thread."""
        if self._handle is not None:
            _library().cc_cuda_nodes_abort(self._handle)

    def release(self) -> None:
        """Free the memory; nothing may run."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with _cuda.device(self.device):
                _library().cc_cuda_nodes_destroy(handle)

    def _run(self, tensor: torch.Tensor, limit: float | None, call: Callable[[int, int], int]) -> None:
        """Call the library on the current stream and wait for the result; a failure ends the group on all ranks."""
        device = tensor.device
        limit = self._timeout_s if limit is None else limit
        if device != self.device:
            raise CollectiveCoreError(
                Result.INVALID_USAGE,
                f"this group reduces tensors of {self.device}, this one is on {device}; use a group of its own",
            )
        stream = _cuda.current_stream(device)
        try:
            with _cuda.device(device):
                check(call(stream.cuda_stream, milliseconds(limit)))
                await_end(stream.query, device, None if limit is None else limit + GRACE_S)
                # A stage on the GPU that has passed its deadline ends, and leaves no result.
                check(_library().cc_cuda_nodes_poll(self._handle, None))
        except CollectiveCoreError:
            self.abort()
            self._communicator.abort()
            raise

    def _info(self) -> _Info:
        info = _Info(size=sizeof(_Info))
        check(_library().cc_cuda_nodes_get_info(self._handle, byref(info)))
        return info

    def _is_requested(self) -> bool:
        """Return whether CCORE_CUDA_PATH is set on all ranks, as dense all_reduce requires; top-k does not.

        The sizes from which the GPUs take part are estimates. If the variable is unset, the CPUs therefore reduce
        between nodes, although ranks inside a node take the path `auto`.
        """
        if self._requested is None:
            self._requested = all(self._exchanged(int(environment.text("CCORE_CUDA_PATH") != "")))
        return self._requested

    def _is_ready(self, device: torch.device) -> bool:
        if self.device is None:
            self.device = device
            self._attach()
        return self._handle is not None

    def _attach(self) -> None:
        """Meet the other ranks; make the handle if all of them can."""
        refusal = self._own_refusal()
        if all(self._exchanged(0 if refusal else 1)):
            try:
                self._create()
            except CollectiveCoreError as error:  # on the ranks of this node, or on this rank alone
                refusal = str(error)
            paths = self._exchanged(0 if refusal else 1 + self._info().inside)
            if all(paths):
                self._paths = [CudaPath(path - 1) for path in paths]
            else:
                self.release()
        self._refusal = refusal or f"another rank cannot use {LIBRARY_NAME}"
        _logger.info("collective_core between nodes, tensors of %s: %s", self.device, self.describe())
        if self._handle is not None and _logger.isEnabledFor(logging.INFO):
            address = affinity.address_of_gpu(torch.cuda.get_device_properties(self.device))
            if address is not None:
                _logger.info("collective_core GPU %s", affinity.describe_gpu(address))

    def _create(self) -> None:
        handle = c_void_p()
        with _cuda.device(self.device):
            check(_library().cc_cuda_nodes_create(self._communicator._live(), None, byref(handle)))
        self._handle = handle

    def _exchanged(self, number: int) -> list[int]:
        """Return a small number of each rank."""
        every = (ctypes.c_ubyte * self._communicator.size)()
        self._communicator.all_gather((ctypes.c_ubyte * 1)(number), every, self._timeout_s)
        return list(every)

    def _own_refusal(self) -> str:
        path = environment.text("CCORE_CUDA_PATH")
        if path in ("host", "staged"):
            return f"CCORE_CUDA_PATH is {path}"
        try:
            _library()
        except (OSError, AttributeError) as error:
            return f"{LIBRARY_NAME} cannot be used: {error}"
        return ""


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
