"""Smaller types for the way over the wire."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch


class Compressor(ABC):
    """What a tensor is turned into before a reduction, and back after it."""

    @staticmethod
    @abstractmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        """Return what is sent, and what `decompress` needs."""

    @staticmethod
    @abstractmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
        """Return the tensor in its own type."""


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        """Return the tensor."""
        return tensor, tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
        """Return the tensor."""
        return tensor


class FP16Compressor(Compressor):
    """Sends floating point numbers in 16 bits."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        """Return the tensor as float16, integers as they are."""
        return (tensor.to(torch.float16) if tensor.is_floating_point() else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
        """Return the tensor in the type that it had."""
        return tensor.to(ctx)


class Compression:
    """Horovod's names of the choices."""

    none = NoneCompressor
    fp16 = FP16Compressor
