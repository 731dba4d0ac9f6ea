"""Top-k selection of CUDA tensors, and the sum of what was selected, by libcollective_core_cuda.so.

A payload is one tensor of bytes in the memory of the GPU: {nonfinite, kept}, the indices, the values. Calls queue
work on the current stream and do not wait for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int, c_int32, c_size_t, c_void_p, sizeof
from functools import cache
from typing import Any

import torch

from collective_core.errors import CollectiveCoreError, Result
from collective_core.topk import Method
from collective_core.torch.cuda_library import check, declared
from collective_core.torch.tensors import dtype_of

_HEADER_BYTES = 8


class _Request(ctypes.Structure):
    """cc_cuda_topk_request."""

    _fields_ = [
        ("size", c_size_t),
        ("gradient", c_void_p),
        ("count", c_size_t),
        ("kept", c_size_t),
        ("dtype", c_int32),
        ("method", c_int32),
        ("values", c_int32),
        ("samplings", c_int32),
        ("residual", c_void_p),
        ("next_residual", c_void_p),
        ("payload", c_void_p),
    ]


_SIGNATURES: dict[str, tuple[object, ...]] = {
    "cc_cuda_topk_create": (c_size_t, c_size_t, c_void_p),
    "cc_cuda_topk_select": (c_void_p, c_void_p, c_void_p),
    "cc_cuda_topk_sum": (
        *(c_void_p, c_void_p, c_size_t, c_size_t, c_int, c_int, c_void_p, c_size_t, c_int, c_void_p),
    ),
    "cc_cuda_topk_poll": (c_void_p,),
    "cc_cuda_topk_destroy": (c_void_p,),
}


@cache
def _library() -> ctypes.CDLL:
    return declared(_SIGNATURES)


def payload_bytes(kept: int, *, half_values: bool = False) -> int:
    """Return the size of a payload of so many elements."""
    return _HEADER_BYTES + kept * (6 if half_values else 8)


def unpacked(
    payload: torch.Tensor, kept: int, *, half_values: bool = False
) -> tuple[bool, torch.Tensor, torch.Tensor]:
    """Return whether a payload is nonfinite, its indices (as int32) and its values; waits for it."""
    header = payload[:_HEADER_BYTES].view(torch.int32).tolist()
    indices = payload[_HEADER_BYTES : _HEADER_BYTES + 4 * kept].view(torch.int32)
    rest = payload[_HEADER_BYTES + 4 * kept :]
    if half_values:  # a view needs no alignment of its own: offsets are multiples of 4
        return header[0] != 0, indices, rest[: 2 * kept].view(torch.float16)
    return header[0] != 0, indices, rest[: 4 * kept].view(torch.float32)


class CudaTopk:
    """Scratch memory on one device for one selection or sum at a time."""

    def __init__(self, device: torch.device, count: int = 0, kept: int = 0) -> None:
        """Allocate for `kept` of `count` elements; it grows when a call needs more, but not in a CUDA graph."""
        self.device = device
        self._handle: c_void_p | None = c_void_p()
        with torch.cuda.device(device):
            check(_library().cc_cuda_topk_create(count, kept, ctypes.byref(self._handle)))

    def select(
        self,
        gradient: torch.Tensor,
        kept: int,
        payload: torch.Tensor,
        *,
        residual: torch.Tensor | None = None,
        next_residual: torch.Tensor | None = None,
        method: Method = Method.EXACT,
        samplings: int = 0,
        half_values: bool = False,
    ) -> None:
        """Write the payload of the largest magnitudes of gradient + residual, and what it leaves to next_residual."""
        _expect_contiguous(gradient, payload, residual, next_residual)
        request = _Request(
            size=sizeof(_Request),
            gradient=gradient.data_ptr(),
            count=gradient.numel(),
            kept=kept,
            dtype=int(dtype_of(gradient)),
            method=int(method),
            values=1 + int(half_values),
            samplings=samplings,
            residual=None if residual is None else residual.data_ptr(),
            next_residual=None if next_residual is None else next_residual.data_ptr(),
            payload=payload.data_ptr(),
        )
        with torch.cuda.device(self.device):
            check(_library().cc_cuda_topk_select(self._handle, ctypes.byref(request), self._stream()))

    def add_up(
        self,
        payloads: Sequence[torch.Tensor],
        kept: int,
        out: torch.Tensor,
        *,
        half_values: bool = False,
        divisor: int = 1,
    ) -> None:
        """Write the sum of payloads, in their order and divided once, to a tensor; zero where there is none."""
        _expect_contiguous(out, *payloads)
        addresses = (c_void_p * len(payloads))(*(payload.data_ptr() for payload in payloads))
        with torch.cuda.device(self.device):
            check(
                _library().cc_cuda_topk_sum(
                    self._handle, addresses, len(payloads), kept, 1 + int(half_values), divisor,
                    out.data_ptr(), out.numel(), int(dtype_of(out)), self._stream(),
                )
            )  # fmt: skip

    def check(self) -> None:
        """Raise if a sum that has ended met an index out of range."""
        check(_library().cc_cuda_topk_poll(self._handle))

    def release(self) -> None:
        """Wait for the last operation and free the memory."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with torch.cuda.device(self.device):
                check(_library().cc_cuda_topk_destroy(handle))

    def _stream(self) -> int:
        stream: Any = torch.cuda.current_stream(self.device)
        return int(stream.cuda_stream)


def _expect_contiguous(*tensors: torch.Tensor | None) -> None:
    if not all(tensor.is_contiguous() and tensor.is_cuda for tensor in tensors if tensor is not None):
        raise CollectiveCoreError(
            Result.INVALID_ARGUMENT, "top-k selection needs contiguous tensors on the GPU"
        )
