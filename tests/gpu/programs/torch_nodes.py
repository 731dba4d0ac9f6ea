"""torch's all_reduce of CUDA tensors on emulated nodes of several ranks, against the same calls on CPU tensors.

CCORE_INTRA_SIZE cuts the machine into nodes. argv[1]: "gpus" or "cpus", where the stages inside the nodes must run;
argv[2], with "killed": the last rank kills itself. Prints the way and the counts, then "done".
"""

from __future__ import annotations

import datetime
import os
import random
import signal
import sys
import time

import collective_core.torch
import collective_core.torch_backend  # registers ccore
import torch
import torch.distributed as dist
from collective_core.enums import CudaPath
from collective_core.torch.tensors import for_reduction

Op = dist.ReduceOp
PER_NODE = int(os.environ["CCORE_INTRA_SIZE"])
where = sys.argv[1]
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
gpu = torch.device("cuda", rank % PER_NODE % torch.cuda.device_count())
torch.cuda.set_device(gpu)
dist.init_process_group("ccore", timeout=datetime.timedelta(seconds=10 if "killed" in sys.argv else 60))
generator = torch.Generator().manual_seed(rank)
sizes = random.Random(5)  # the same on all ranks
MIB = 1 << 20
TYPES = (
    torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.uint32,
    torch.int64, torch.uint64, torch.bool, torch.complex64,
)  # fmt: skip


def given(count: int, dtype: torch.dtype, op: object) -> torch.Tensor:
    """Return small whole numbers, whose sums and products are exact in any order."""
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    lowest = 1 if op == Op.PRODUCT or not (dtype.is_signed or dtype.is_complex) else -3
    return torch.randint(lowest, 3 if op == Op.PRODUCT else 8, (count,), generator=generator).to(dtype)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


def check(tensor: torch.Tensor, op: object, label: str) -> None:
    """Reduce a tensor on the GPU and a copy on the CPUs, and compare."""
    on_gpu, on_host = tensor.to(gpu), tensor.clone()
    dist.all_reduce(on_gpu, op)
    dist.all_reduce(on_host, op)
    assert torch.equal(bits(on_gpu.cpu()), bits(on_host)), f"rank {rank}: {label}"


def every_type() -> int:
    """Compare all types and operators at one size that has a rest in chunks and parts; return the bytes at least."""
    calls = 0
    for dtype in TYPES:
        for op in (Op.SUM, Op.AVG, Op.MIN, Op.MAX, Op.PRODUCT):
            try:
                for_reduction(torch.zeros(1, dtype=dtype), op)
            except collective_core.CollectiveCoreError:
                continue  # refused on every device
            count = 9 * MIB // torch.empty(0, dtype=dtype).element_size() + 5
            check(given(count, dtype, op), op, f"{count} {dtype} {op}")
            calls += 1
    return calls


def random_sizes(least: int) -> int:
    """Compare random sizes, also around the size from which the GPUs take part; return how many have it."""
    counts = [1, 3, least // 4 - 1, least // 4, least // 4 + 1]
    counts += [int(2 ** sizes.uniform(0, 23)) for _ in range(40)]
    for count in counts:
        check(given(count, torch.float32, Op.SUM), Op.SUM, f"{count} elements")
    return sum(4 * count >= least for count in counts)


def orders() -> int:
    """Reduce behind work of another stream, asynchronously, from views, and scaled."""
    count = 4 * MIB
    expected = sum(range(1, size + 1))
    with torch.cuda.stream(torch.cuda.Stream(gpu)):
        large = torch.ones(4096, 4096, device=gpu) * (rank + 1)
        product = (large @ torch.eye(4096, device=gpu)).flatten()[:count]
        works = [dist.all_reduce(one, async_op=True) for one in (product, large)]
        for work in works:
            assert work is not None
            work.wait()
        assert torch.all(product == expected) and torch.all(large == expected)
    rows = torch.full((2048, 4096), rank + 1.0, device=gpu)
    dist.all_reduce(rows.t())
    assert torch.all(rows == expected)
    scaled = torch.full((count,), rank + 1.0, device=gpu)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
    assert torch.all(scaled == expected / 2)
    return 4


def killed() -> None:
    tensor = torch.ones(4 * MIB, device=gpu)
    dist.all_reduce(tensor)
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.perf_counter()
    try:
        dist.all_reduce(tensor)
    except collective_core.torch_backend.CcoreBackendError as error:
        print(f"{error} after {time.perf_counter() - began:.2f} s", flush=True)
        os._exit(0)  # the group can only be left
    raise SystemExit("the operation succeeded without a rank")


dist.all_reduce(torch.ones(16 * MIB, device=gpu))  # the ranks meet
described = collective_core.torch.describe()
print(described["between_nodes"], flush=True)
if where == "gpus":
    assert described["between_nodes"].startswith("on the GPUs, inside nodes by "), described
    names = described["between_nodes"].removeprefix("on the GPUs, inside nodes by ").split(" and ")
    limits = collective_core.torch._own(None)._communicator.limits()
    least = max(limits.least_device_2d_bytes[CudaPath[name.upper()]] for name in names)
else:
    assert described["between_nodes"].startswith("on the CPUs: "), described
    least = 4 * MIB
if "killed" in sys.argv:
    killed()
recorder = collective_core.torch.usage_recorder()
recorder.skip()
expected_calls = every_type() + random_sizes(least) + orders()
recorder.look()
on_gpu = {key: calls for key, calls in recorder.usage().calls.items() if key[2] == "2d_gpu"}
assert all(operation == "all_reduce" and size_bytes >= least for operation, size_bytes, _ in on_gpu), on_gpu
assert sum(on_gpu.values()) == (expected_calls if where == "gpus" else 0), (on_gpu, expected_calls)
print(f"all_reduce by 2d_gpu: {sum(on_gpu.values())}", flush=True)
dist.destroy_process_group()
print("done")
