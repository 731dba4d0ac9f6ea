"""all_reduce of CUDA tensors among ranks that share one GPU, in its own memory, by libcollective_core_cuda.so."""

from __future__ import annotations

import ctypes
import logging
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_ubyte, c_void_p
from functools import cache
from typing import Any

import torch

from collective_core import environment
from collective_core.communicator import Buffer, Communicator, Dtype, Redop
from collective_core.errors import CollectiveCoreError, Result
from collective_core.handle import milliseconds
from collective_core.locations import library_path

LIBRARY_NAME = "libcollective_core_cuda.so"
MOST_RANKS = 16
# Below it host memory is faster: each meeting of the ranks on the GPU costs two changes of its time slice, 0.3 ms.
SMALLEST_BYTES = 1 << 20
_logger = logging.getLogger("collective_core")
# What a rank tells the others: 1 if it can, the GPU's identity.
_CARD_BYTES = 17


@cache
def _library() -> ctypes.CDLL:
    """Load the library once; raises OSError or AttributeError. The library that it needs is loaded already."""
    loaded = ctypes.CDLL(str(library_path().with_name(LIBRARY_NAME)))
    loaded.cc_cuda_last_error.restype = c_char_p
    loaded.cc_cuda_device_identity.argtypes = [c_void_p]
    loaded.cc_cuda_create.argtypes = [c_void_p, c_void_p, c_void_p]
    loaded.cc_cuda_all_reduce.argtypes = [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p]
    loaded.cc_cuda_wait.argtypes = [c_void_p, c_int64]
    loaded.cc_cuda_destroy.argtypes = [c_void_p]
    return loaded


def _check(code: int) -> None:
    if code != Result.SUCCESS:
        text: bytes = _library().cc_cuda_last_error()
        raise CollectiveCoreError(Result(code), text.decode(errors="replace"))


class SharedGpu:
    """The path of a process group whose ranks all use the same GPU. All ranks decide alike, at the first use."""

    def __init__(self, communicator: Communicator, timeout_s: float) -> None:
        """Take the communicator, which must outlive this, and the deadline of calls without their own."""
        self._communicator = communicator
        self._timeout_s = timeout_s
        self._device: torch.device | None = None
        self._handle: c_void_p | None = None

    def all_reduce(self, tensor: torch.Tensor, buffer: Buffer, redop: Redop, limit: float | None) -> bool:
        """Reduce a contiguous tensor (`buffer` is its memory) in place; False if the ranks do not share a GPU.

        Runs on the current stream and returns when the result is there.
        """
        if self._device is None:
            self._device = tensor.device
            self._attach()
        if self._handle is None or (redop == Redop.AVG and not _is_float(buffer.dtype)):
            return False
        if tensor.device != self._device:
            raise CollectiveCoreError(
                Result.INVALID_USAGE,
                f"this group reduces tensors of {self._device}, this one is on {tensor.device}; use a group of its own",
            )
        stream: Any = torch.cuda.current_stream(self._device)
        timeout_ms = milliseconds(self._timeout_s if limit is None else limit)
        library = _library()
        _check(
            library.cc_cuda_all_reduce(
                self._handle, buffer.address, buffer.address, buffer.count, int(buffer.dtype), int(redop),
                stream.cuda_stream,
            )
        )  # fmt: skip
        if buffer.count:
            _check(library.cc_cuda_wait(self._handle, timeout_ms))
        return True

    def release(self) -> None:
        """Free the memory on the GPU."""
        if self._handle is not None:
            _library().cc_cuda_destroy(self._handle)
            self._handle = None

    def _attach(self) -> None:
        """Meet the other ranks, and make the handle if all share one GPU."""
        own, reason = self._card()
        cards = bytearray(_CARD_BYTES * self._communicator.size)
        sent = (c_ubyte * _CARD_BYTES).from_buffer_copy(own)
        received = (c_ubyte * len(cards)).from_buffer(cards)
        self._communicator.all_gather(sent, received)
        every = {bytes(cards[at : at + _CARD_BYTES]) for at in range(0, len(cards), _CARD_BYTES)}
        if len(every) > 1 or not own[0]:
            reason = reason or "the ranks use different GPUs, or one of them cannot share its GPU"
        else:
            handle = c_void_p()
            code = _library().cc_cuda_create(self._communicator._live(), None, byref(handle))
            if code == Result.SUCCESS:
                self._handle = handle
            elif code == Result.SYSTEM:  # it failed on all ranks
                reason = _library().cc_cuda_last_error().decode(errors="replace")
            else:
                _check(code)
        way = (
            "in the memory of the GPU that all ranks share"
            if self._handle
            else f"through host memory: {reason}"
        )
        _logger.info("collective_core reduces CUDA tensors of %s %s", self._device, way)

    def _card(self) -> tuple[bytes, str]:
        """Return this rank's card, and the reason if it cannot share its GPU."""
        refusal = ""
        identity = (c_ubyte * 16)()
        if environment.text("CCORE_CUDA_PATH") == "host":
            refusal = "CCORE_CUDA_PATH is host"
        elif self._communicator.size > MOST_RANKS:
            refusal = f"more than {MOST_RANKS} ranks"
        else:
            try:
                _check(_library().cc_cuda_device_identity(identity))
            except (OSError, AttributeError, CollectiveCoreError) as error:
                refusal = f"{LIBRARY_NAME} cannot be used: {error}"
        return (bytes(_CARD_BYTES), refusal) if refusal else (b"\1" + bytes(identity), "")


def _is_float(dtype: Dtype) -> bool:
    return dtype in (Dtype.FLOAT64, Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16)
