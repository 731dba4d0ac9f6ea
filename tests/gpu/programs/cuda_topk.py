"""Top-k selection and sums on the GPU against torch's stable sort; prints one line per group of cases, then "done".

"quick" as an argument leaves out most cases, for a run under compute-sanitizer.
"""

from __future__ import annotations

import itertools
import sys
import time

import torch
from collective_core.topk import Method
from collective_core.torch.cuda_topk import CudaTopk, payload_bytes, unpacked

gpu = torch.device("cuda", 0)
torch.cuda.set_device(gpu)
quick = "quick" in sys.argv
topk = CudaTopk(gpu)
generator = torch.Generator(gpu).manual_seed(5)
LARGEST_HALF = 65504.0


def keys_of(values: torch.Tensor) -> torch.Tensor:
    """Return magnitudes as integers, NaN above infinity."""
    return values.view(torch.int32) & 0x7FFFFFFF


def expected(values: torch.Tensor, kept: int) -> torch.Tensor:
    """Return the sorted indices of the largest magnitudes, among equals the lowest."""
    return torch.sort(keys_of(values), descending=True, stable=True)[1][:kept].sort()[0]


def halves(values: torch.Tensor) -> torch.Tensor:
    return values.clamp(-LARGEST_HALF, LARGEST_HALF).to(torch.float16)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    view = torch.int16 if one.element_size() == 2 else torch.int32
    return torch.equal(one.view(view), other.view(view))


def check(
    name: str,
    gradient: torch.Tensor,
    kept: int,
    *,
    residual: torch.Tensor | None = None,
    feedback: bool = False,
    half_values: bool = False,
    wanted: torch.Tensor | None = None,
    method: Method = Method.EXACT,
    samplings: int = 0,
) -> None:
    """Select, compare set, values, flag and residual; raise with the name of the case."""
    count = gradient.numel()
    acc = gradient.float() if residual is None else gradient.float() + residual
    left = torch.full((count,), 7.0, device=gpu) if feedback else None
    payload = torch.full((payload_bytes(kept, half_values=half_values),), 255, dtype=torch.uint8, device=gpu)
    topk.select(
        gradient, kept, payload, residual=residual, next_residual=left,
        half_values=half_values, method=method, samplings=samplings,
    )  # fmt: skip
    nonfinite, indices, values = unpacked(payload, kept, half_values=half_values)
    order = indices.argsort()
    indices, values = indices[order].long(), values[order]
    finite = bool(torch.isfinite(acc).all())
    label = f"{name} n={count} k={kept} {gradient.dtype} feedback={feedback} half={half_values}"
    assert nonfinite == (not finite), f"{label}: flag {nonfinite}"
    wanted = expected(acc, kept) if wanted is None else wanted
    assert torch.equal(indices, wanted), (
        f"{label}: {int((indices != wanted).sum())} of {kept} indices differ, first {indices[:5].tolist()} "
        f"instead of {wanted[:5].tolist()}"
    )
    if not finite:
        return
    sent = halves(acc[indices]) if half_values else acc[indices]
    assert same_bits(values, sent), f"{label}: values differ"
    if left is not None:
        rest = acc.clone()
        rest[indices] -= sent.float()
        assert torch.equal(left, rest), f"{label}: {int((left != rest).sum())} residuals differ"


def normal(count: int, dtype: torch.dtype = torch.float32, scale: float = 1e-3) -> torch.Tensor:
    return (torch.randn(count, generator=generator, device=gpu) * scale).to(dtype)


def sizes() -> None:
    """Compare random data of many sizes, types and ratios."""
    counts = [1, 2, 3, 31, 1000, 4097, 65537, 262143, 262144, 300001, 1 << 20, (1 << 22) + 3]
    for count, dtype in itertools.product(
        counts[2::4] if quick else counts, (torch.float32, torch.float16, torch.bfloat16)
    ):
        for kept in sorted(
            {1, max(1, count // 1000), max(1, count // 100), max(1, count // 9), max(1, count // 2), count}
        ):
            for feedback, half_values in ((False, False), (True, False), (True, True)):
                gradient = normal(count, dtype)
                residual = normal(count) if feedback and kept % 2 else None
                check("normal", gradient, kept, residual=residual, feedback=feedback, half_values=half_values)


def shapes() -> None:
    """Compare data that a sample describes badly, and data full of equal magnitudes."""
    count = (1 << 20) + 5
    spikes = torch.zeros(count, device=gpu)
    spikes[torch.randperm(count, generator=generator, device=gpu)[:900]] = 1.0
    outliers = normal(count)
    outliers[77::100003] *= 1e30
    block = normal(count)
    block[5000:9000] *= 1e6  # more than the sample promises, all in one place
    cases = {
        "zeros": torch.zeros(count, device=gpu),
        "equal": torch.full((count,), -2.5, device=gpu),
        "ascending": torch.arange(count, device=gpu, dtype=torch.float32),
        "descending": torch.arange(count, 0, -1, device=gpu, dtype=torch.float32),
        "spikes": spikes,
        "outliers": outliers,
        "block": block,
        "few values": torch.randint(-3, 4, (count,), generator=generator, device=gpu).float(),
        "denormals": normal(count, scale=1e-41),
        "wide": normal(count) * torch.exp(20 * torch.randn(count, generator=generator, device=gpu)),
        "huge": normal(count, scale=1e38),
    }
    for name, gradient in cases.items():
        for kept in (1, 500, 5000, count // 100, count // 10, count // 2):
            check(name, gradient, kept)
            if bool(torch.isfinite(gradient).all()):
                check(name, gradient, kept, feedback=True, half_values=kept % 2 == 0)
    for kept in (1, 1000, count // 10):
        for bad in (float("inf"), -float("inf"), float("nan")):
            for place in (0, 77, count - 1):
                gradient = normal(count)
                gradient[place] = bad
                check("nonfinite", gradient, kept)
                check("nonfinite", gradient, kept, feedback=True)
        all_bad = torch.full((count,), float("inf"), device=gpu)
        check("all infinite", all_bad, kept)
    for offset in (1, 2, 3):
        for dtype in (torch.float32, torch.bfloat16):
            source, residual = normal(count + 8, dtype), normal(count + 8)
            check(
                "unaligned",
                source[offset : offset + count],
                5000,
                residual=residual[3 : 3 + count],
                feedback=True,
            )


def mstopk(values: torch.Tensor, kept: int, samplings: int) -> torch.Tensor:
    """Select as collective_core/src/compress/mstopk.cc does."""
    sizes = values.abs()
    count = values.numel()
    largest = float(sizes.max())
    mean = float((sizes.double().sum() / count).float())
    bits = torch.tensor([largest]).view(torch.int32) + 1
    lower, upper = 0.0, float(bits.view(torch.float32))
    low, high, middle = 0.0, largest, mean
    for _ in range(samplings + 1):
        threshold = float(torch.tensor(middle, dtype=torch.float64).float())
        found = int((sizes >= threshold).sum())
        if found <= kept:
            upper, high = min(upper, threshold), middle
        if found >= kept:
            lower, low = max(lower, threshold), middle
        if found == kept:
            break
        middle = low + (high - low) / 2
    taken = sizes >= upper
    missing = kept - int(taken.sum())
    band = ((sizes >= lower) & ~taken).nonzero().flatten()[:missing]
    return torch.cat([taken.nonzero().flatten(), band]).sort()[0]


def mstopk_cases() -> None:
    """Compare MSTopK on dyadic numbers, whose mean is exact in any order."""
    for count in (5000, 300001, (1 << 20) + 5):
        whole = torch.randint(-(1 << 20), 1 << 20, (count,), generator=generator, device=gpu).float() / 1024
        few = torch.randint(-3, 4, (count,), generator=generator, device=gpu).float()
        bent = (whole / 1024) ** 5
        bent = (bent * 2**20).round() / 2**20
        for values, samplings in itertools.product((whole, few, bent), (30, 1, 3, 8)):
            for kept in (1, count // 1000, count // 100, count // 3, count - 1, count):
                check(
                    f"mstopk {samplings}", values, kept, wanted=mstopk(values, kept, samplings),
                    method=Method.MSTOPK, samplings=samplings, feedback=samplings == 30,
                )  # fmt: skip


def sums() -> None:
    """Compare sums of payloads with those of dense tensors, added in order."""
    for count, dtype, half_values in itertools.product(
        (1000, 300001, 1 << 20), (torch.float32, torch.float16, torch.bfloat16), (False, True)
    ):
        kept = max(1, count // 50)
        payloads, dense = [], torch.zeros(count, device=gpu)
        for _ in range(5):
            gradient = normal(count, scale=1.0)
            payload = torch.empty(payload_bytes(kept, half_values=half_values), dtype=torch.uint8, device=gpu)
            topk.select(gradient, kept, payload, half_values=half_values)
            _, indices, values = unpacked(payload, kept, half_values=half_values)
            part = torch.zeros(count, device=gpu)
            part[indices.long()] = values.float()
            dense += part
            payloads.append(payload)
        for divisor in (1, 5, 4):
            out = torch.full((count,), 3.0, device=gpu, dtype=dtype)
            topk.add_up(payloads, kept, out, half_values=half_values, divisor=divisor)
            torch.cuda.synchronize()
            # Not by a number: torch then multiplies by its inverse.
            assert torch.equal(out, (dense / torch.full_like(dense, divisor)).to(dtype)), (
                f"sum of {count} {dtype} {half_values} / {divisor}"
            )
    topk.check()


def graph() -> None:
    """Replay a captured selection on data that changes, and repeat one: the same set each time."""
    count, kept = 3_000_001, 30_000
    gradient, residual, left = normal(count), normal(count), torch.empty(count, device=gpu)
    payload = torch.empty(payload_bytes(kept), dtype=torch.uint8, device=gpu)
    topk.select(gradient, kept, payload, residual=residual, next_residual=left)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        topk.select(gradient, kept, payload, residual=residual, next_residual=left)
        residual.copy_(left)
    for _ in range(20):
        gradient.copy_(normal(count))
        acc = gradient + residual
        captured.replay()
        _, indices, values = unpacked(payload, kept)
        order = indices.argsort()
        assert torch.equal(indices[order].long(), expected(acc, kept)), "a replay selected another set"
        # What is sent and what is left are all there was: exact, for nothing is rounded.
        sent = torch.zeros(count, device=gpu)
        sent[indices.long()] = values
        assert torch.equal(sent + residual, acc), "sent and residual are not what was given"


def large() -> None:
    """Compare the largest vectors: more elements than 2^30, indices above 2^30."""
    count, kept = (1 << 31) - 1, 100_000
    gradient = torch.zeros(count, dtype=torch.bfloat16, device=gpu)
    places = torch.randint(0, count, (3 * kept,), generator=generator, device=gpu).unique()[: 2 * kept]
    places = torch.cat([places, torch.tensor([count - 1], device=gpu)]).unique()
    gradient[places] = torch.randn(places.numel(), generator=generator, device=gpu).to(torch.bfloat16)
    payload = torch.empty(payload_bytes(kept), dtype=torch.uint8, device=gpu)
    topk.select(gradient, kept, payload)
    _, indices, _ = unpacked(payload, kept)
    keys = keys_of(gradient[places].float())
    wanted = places[torch.sort(keys, descending=True, stable=True)[1][:kept]].sort()[0]
    assert torch.equal(indices.long().sort()[0], wanted), "the largest vector"


everything = (sizes, shapes, mstopk_cases, sums, graph, large)
for group in (sizes, sums, graph) if quick else everything:
    began = time.perf_counter()
    group()
    torch.cuda.synchronize()
    print(f"{group.__name__} {time.perf_counter() - began:.1f} s", flush=True)
topk.release()
print("done")
