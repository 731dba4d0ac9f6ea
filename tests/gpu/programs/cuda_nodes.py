"""A rank on one of several emulated nodes: all_reduce of CUDA tensors between nodes against the library for the host.

CCORE_INTRA_SIZE cuts the machine into nodes. Prints a line per group of cases, then "done". With "killed" as an
argument the last rank kills itself instead.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time

import torch
from collective_core.communicator import Buffer, Communicator, Redop
from collective_core.errors import CollectiveCoreError
from collective_core.topk import Method, Residual, Topk
from collective_core.torch.cuda_nodes import CudaNodes
from collective_core.torch.tensors import for_reduction

gpu = torch.device("cuda", 0)
torch.cuda.set_device(gpu)
communicator = Communicator.from_environment(timeout_s=60)
nodes = CudaNodes(communicator)
rank, size = communicator.rank, communicator.size
locals_ = communicator.peer(rank).local_size
generator = torch.Generator().manual_seed(100 + rank)


def buffer_of(tensor: torch.Tensor) -> Buffer:
    return for_reduction(tensor, torch.distributed.ReduceOp.SUM)[0]


def values(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers whose sums over a node are exact, and so do not depend on their order."""
    if locals_ == 1 and dtype == torch.float32:
        return torch.randn(count, generator=generator) * 1e-3
    limit = 1 << 18 if dtype == torch.float32 else 60
    return (torch.randint(-limit, limit, (count,), generator=generator) / 64).to(dtype)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    view = torch.int16 if one.element_size() == 2 else torch.int32
    return torch.equal(one.view(view), other.view(view))


def topk() -> None:
    """Compare several steps with error feedback: results and residuals have the same bits."""
    cases = itertools.product(
        (20_001, 300_001), (torch.float32, torch.float16, torch.bfloat16), (False, True), Redop, (0.01, 0.2)
    )
    for count, dtype, half_values, redop, ratio in cases:
        if redop not in (Redop.SUM, Redop.AVG):
            continue
        settings = Topk(ratio, 1, Method.EXACT, half_values)
        ours, theirs = Residual(), Residual()
        for step in range(3):
            given = values(count, dtype)
            if step == 1 and rank == size - 1:
                given[count // 2] = float("inf")
            on_gpu, on_host = given.to(gpu), given.clone()
            label = f"rank {rank}: {count} {dtype} half={half_values} {redop.name} {ratio} step {step}"
            if not communicator.topk_plan(count, buffer_of(on_host).dtype, settings).compressed:
                break
            assert nodes.topk_all_reduce(on_gpu, buffer_of(on_gpu), ours, settings, redop, 30), label
            communicator.topk_all_reduce(buffer_of(on_host), buffer_of(on_host), theirs, settings, redop, 30)
            back = on_gpu.cpu()
            if step == 1:  # dense; 16-bit averages are rounded once more
                assert bool(torch.isinf(back[count // 2])), label
                assert torch.allclose(back.float(), on_host.float(), rtol=2e-2, atol=1e-6), label
            else:
                assert same_bits(back, on_host), f"{label}: {int((back != on_host).sum())} differ"
            assert ours.state() == theirs.state(), f"{label}: residuals differ"
        ours.reset()
        assert ours.state().steps == 0


def dense() -> None:
    """Compare types, operators and sizes that chunks do not divide."""
    types = (
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    )
    for count, dtype, redop in itertools.product((1, 1003, 5_000_003), types, Redop):
        if redop == Redop.PROD or (count > 2000 and dtype not in types[:2]):
            continue
        if dtype in types[-2:]:  # which hold few sums exactly
            given = torch.randint(-1, 2, (count,), generator=generator).to(dtype)
        elif dtype.is_floating_point:
            given = (torch.randint(-20, 20, (count,), generator=generator) / 4).to(dtype)
        else:
            given = torch.randint(0, 60, (count,), generator=generator).to(dtype)
        on_gpu, on_host = given.to(gpu), given.clone()
        assert nodes.all_reduce(on_gpu, buffer_of(on_gpu), redop, 30)
        communicator.all_reduce(buffer_of(on_host), buffer_of(on_host), redop, 30)
        back, wanted = on_gpu.cpu().double(), on_host.double()  # torch compares no 8-bit floats
        assert torch.equal(back, wanted), (
            f"rank {rank}: dense {count} {dtype} {redop.name}: {int((back != wanted).sum())} differ"
        )


def killed() -> None:
    """Lose the last rank between two operations: the others get an error, soon."""
    settings, residual = Topk(0.01, 1), Residual()
    tensor = torch.ones(1_000_000, device=gpu)
    assert nodes.topk_all_reduce(tensor, buffer_of(tensor), residual, settings, Redop.SUM, 30)
    torch.cuda.synchronize()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.perf_counter()
    for attempt in (nodes.topk_all_reduce, None):
        try:
            if attempt is None:
                nodes.all_reduce(tensor, buffer_of(tensor), Redop.SUM, 30)
            else:
                attempt(tensor, buffer_of(tensor), residual, settings, Redop.SUM, 30)
        except CollectiveCoreError as error:
            print(f"{error} after {time.perf_counter() - began:.2f} s", flush=True)
        else:
            raise SystemExit("the operation succeeded without a rank")
    torch.cuda.synchronize()
    sys.exit(0)


if "killed" in sys.argv:
    killed()
for group in (dense, topk):
    began = time.perf_counter()
    group()
    print(f"{group.__name__} {time.perf_counter() - began:.1f} s", flush=True)
nodes.release()
communicator.destroy()
print("done")
