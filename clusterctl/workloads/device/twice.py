"""Compute the same work again and again: every result must equal the first one bit for bit.

The inputs are made with whole numbers, which every device computes alike, so that the hashes of two healthy devices
are equal if their model and libraries are (``comparable``). A device that computes wrong once in a while differs from
itself; one that always computes wrong differs from the others.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.nn import functional

from clusterctl.workloads.device.measured import DeviceMeasured

# Primes, so that the pattern does not repeat with the sizes of matrices.
_FACTOR, _MODULUS = 48271, 65537


def pattern(shape: tuple[int, ...], seed: int, device: torch.device, kind: torch.dtype) -> torch.Tensor:
    """Return numbers between -1 and 1 that depend on the shape and the seed alone."""
    count = 1
    for length in shape:
        count *= length
    whole = torch.arange(count, device=device, dtype=torch.int64)
    whole = ((whole % _MODULUS) * _FACTOR + (whole // 257) + seed * 7919) % _MODULUS
    # A division by a power of two is exact.
    return ((whole - _MODULUS // 2).to(torch.float32) / 32768.0).to(kind).view(shape)


def works(device: torch.device) -> dict[str, Callable[[], torch.Tensor]]:
    """Return the works by name: a matrix product, a convolution and an attention."""
    gpu = device.type == "cuda"
    side, images, pixels, channels = (8192, 64, 56, 256) if gpu else (128, 1, 8, 8)
    batch, heads, length, width = (8, 16, 2048, 128) if gpu else (1, 2, 32, 16)
    kind = torch.bfloat16 if gpu else torch.float32
    left, right = (pattern((side, side), seed, device, kind) for seed in (1, 2))
    picture = pattern((images, channels, pixels, pixels), 3, device, kind)
    kernel = pattern((channels, channels, 3, 3), 4, device, kind)
    query, key, value = (pattern((batch, heads, length, width), seed, device, kind) for seed in (5, 6, 7))
    return {
        "gemm": lambda: left @ right,
        "convolution": lambda: functional.conv2d(picture, kernel, padding=1),
        "attention": lambda: functional.scaled_dot_product_attention(query, key, value),
    }


def comparable(device: torch.device) -> str:
    """Return what two devices must share for their hashes to be equal."""
    parts = [f"torch {torch.__version__}"]
    if device.type == "cuda":
        parts = [torch.cuda.get_device_name(device), *parts]
        parts += [f"CUDA {torch.version.cuda}", f"cuDNN {_cudnn()}"]
    else:
        parts = [_cpu_model(), *parts, f"{torch.backends.cpu.get_cpu_capability()}"]
        parts += [f"{torch.get_num_threads()} threads"]
    return ", ".join(parts)


def _cudnn() -> int | None:
    version: int | None = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    return version


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def measure(
    device: torch.device, seconds: float, disturb: Callable[[torch.Tensor, int], torch.Tensor] | None = None
) -> Iterator[DeviceMeasured]:
    """Yield for each work the number of results that differ from the first one, its hash in the detail.

    Each work gets a third of ``seconds`` and runs at least twice. ``disturb`` changes a result (for tests).
    """
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    found = works(device)
    try:
        for name, work in found.items():
            first = work() if disturb is None else disturb(work(), 0)
            # Compared as whole numbers: a NaN differs from itself.
            bits = first.contiguous().view(torch.int16 if first.element_size() == 2 else torch.int32)
            differing, elements, runs, until = 0, 0, 1, time.monotonic() + seconds / len(found)
            while runs < 2 or time.monotonic() < until:
                result = work() if disturb is None else disturb(work(), runs)
                wrong = int((result.contiguous().view(bits.dtype) != bits).sum())
                differing, elements, runs = differing + (wrong > 0), elements + wrong, runs + 1
            yield DeviceMeasured(
                name, float(differing), "differing results",
                detail={"runs": runs, "elements": elements, "sha256": _sha256(bits.cpu()),
                        "comparable": comparable(device)},
            )  # fmt: skip
    finally:
        torch.use_deterministic_algorithms(False)


def _sha256(data: torch.Tensor) -> str:
    # Without numpy, which torch does not need, torch returns no bytes.
    return hashlib.sha256(ctypes.string_at(data.data_ptr(), data.nbytes)).hexdigest()
