"""Matrix multiplication by data type: the best of a few large shapes, in TFLOP/s.

The best shape differs between GPU models and libraries, so that one shape alone understates some of them
(mamf-finder of stas00/ml-engineering searches thousands of shapes; these few come within some percent).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from clusterctl.workloads.device.measured import DeviceMeasured, short
from clusterctl.workloads.device.timing import Effort, median_s

Shape = tuple[int, int, int]
"""m, n, k: an m x k matrix times a k x n matrix."""

GPU_SHAPES: tuple[Shape, ...] = (
    (2048, 2048, 13312),
    (4096, 4096, 4096),
    (4096, 4096, 16384),
    (8192, 8192, 8192),
    (16384, 8192, 4096),
)
CPU_SHAPES: tuple[Shape, ...] = ((128, 128, 128), (256, 256, 256))
_PLAIN = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
NAMES = (*_PLAIN, "fp8")
# The compute capability of NVIDIA's first GPUs whose tensor cores have the type.
_SINCE = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}


def lacks(name: str, device: torch.device) -> str | None:
    """Return why a device has no fast arithmetic of this type; None if it has."""
    if device.type != "cuda":
        return "only GPUs have tf32" if name == "tf32" else None
    since, own = _SINCE.get(name, (0, 0)), torch.cuda.get_device_capability(device)
    if own >= since:
        return None
    return f"needs compute capability {since[0]}.{since[1]}, and this GPU has {own[0]}.{own[1]}"


def product(name: str, shape: Shape, device: torch.device) -> Callable[[], object]:
    """Return a call that multiplies two random matrices of this type, written to the same result each time."""
    m, n, k = shape
    generator = torch.Generator(device=device).manual_seed(1)
    if name == "fp8":
        left = torch.randn(m, k, device=device, generator=generator).to(torch.float8_e4m3fn)
        # The library takes the second matrix by columns.
        right = torch.randn(n, k, device=device, generator=generator).to(torch.float8_e4m3fn).t()
        one = torch.ones((), device=device)
        return lambda: torch._scaled_mm(
            left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )
    kind = _PLAIN[name]
    first = torch.randn(m, k, device=device, generator=generator).to(kind)
    second = torch.randn(k, n, device=device, generator=generator).to(kind)
    result = torch.empty(m, n, dtype=kind, device=device)
    return lambda: torch.matmul(first, second, out=result)


def measure(device: torch.device, effort: Effort, names: tuple[str, ...] = NAMES) -> Iterator[DeviceMeasured]:
    """Yield the TFLOP/s of each type: the best shape's median, and all shapes in the detail."""
    for name in names:
        reason = lacks(name, device)
        if reason is not None:
            yield DeviceMeasured(name, None, "TFLOP/s", reason)
            continue
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        rates: dict[str, float] = {}
        try:
            for m, n, k in GPU_SHAPES if device.type == "cuda" else CPU_SHAPES:
                seconds = median_s(device, product(name, (m, n, k), device), effort)
                rates[f"{m}x{n}x{k}"] = short(2.0 * m * n * k / seconds / 1e12)
        except NotImplementedError as error:
            yield DeviceMeasured(name, None, "TFLOP/s", f"torch {torch.__version__} cannot: {error!s:.200}")
            continue
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
        best = max(rates, key=lambda shape: rates[shape])
        yield DeviceMeasured(name, rates[best], "TFLOP/s", detail={"shape": best, "shapes": rates})
