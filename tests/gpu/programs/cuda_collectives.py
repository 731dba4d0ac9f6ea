"""A rank that checks every call of torch.distributed on CUDA tensors, against the same arithmetic on the host."""

from __future__ import annotations

import time

import collective_core.torch_backend  # noqa: F401  # registers ccore
import torch
import torch.distributed as dist

dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
gpu = torch.device("cuda", 0)
torch.cuda.set_device(gpu)
SIZES = (0, 1, 7, 1024, 100_003, 3_000_001)  # the last one passes through the pipeline of cc_cpu_reduce


def given(of: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """What a rank contributes: small integers, so that sums are exact in every type and order."""
    values = torch.randint(-3, 4, (count,), generator=torch.Generator().manual_seed(1000 * of + count))
    return values.abs().to(dtype) if dtype in (torch.uint8, torch.bool) else values.to(dtype)


def check(name: str, got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert got.device == gpu, (name, got.device)
    assert torch.equal(got.cpu(), wanted), (rank, name, got.cpu().flatten()[:8], wanted.flatten()[:8])


def reductions() -> None:
    types = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32,
             torch.int64, torch.int16)  # fmt: skip
    for dtype in types:
        for count in SIZES:
            every = torch.stack([given(one, count, dtype).double() for one in range(size)])
            for op, wanted in (
                (dist.ReduceOp.SUM, every.sum(0)),
                (dist.ReduceOp.MAX, every.amax(0) if count else every.sum(0)),
            ):
                tensor = given(rank, count, dtype).to(gpu)
                dist.all_reduce(tensor, op)
                check(f"all_reduce {dtype} {count} {op}", tensor, wanted.to(dtype))
    tensor = given(rank, 4096, torch.float32).to(gpu)
    dist.reduce(tensor, size - 1)
    own = given(rank, 4096, torch.float32)
    total = torch.stack([given(one, 4096, torch.float32) for one in range(size)]).sum(0)
    check("reduce", tensor, total if rank == size - 1 else own)
    blocks = torch.stack([given(one, 6 * size, torch.float32) for one in range(size)]).sum(0).view(size, 6)
    output = torch.empty(6, device=gpu)
    dist.reduce_scatter_tensor(output, given(rank, 6 * size, torch.float32).to(gpu))
    check("reduce_scatter", output, blocks[rank])
    dist.reduce_scatter(output, list(given(rank, 6 * size, torch.float32).to(gpu).chunk(size)))
    check("reduce_scatter of a list", output, blocks[rank])
    # Memory that is not contiguous, and not aligned.
    tensor = given(rank, 2 * 5000, torch.float32).to(gpu).view(5000, 2).t()
    dist.all_reduce(tensor)
    wanted = torch.stack([given(one, 10000, torch.float32) for one in range(size)]).sum(0).view(5000, 2).t()
    check("all_reduce, transposed", tensor, wanted)
    tensor = given(rank, 10001, torch.float16).to(gpu)[1:]
    dist.all_reduce(tensor)
    wanted = torch.stack([given(one, 10001, torch.float16) for one in range(size)]).sum(0)[1:]
    check("all_reduce, not aligned", tensor, wanted)
    flags = torch.tensor([rank == 0, True, False], device=gpu)
    dist.all_reduce(flags)
    check("bool", flags, torch.tensor([True, True, False]))
    sparse = torch.sparse_coo_tensor(
        [[rank, size]], [1.0, 2.0], (size + 1,), device=gpu, check_invariants=True
    )
    dist.all_reduce(sparse)
    check("sparse", sparse.to_dense(), torch.tensor([1.0] * size + [2.0 * size]))


def copies() -> None:
    for dtype in (torch.float32, torch.bool, torch.complex64):
        tensor = given(rank, 999, dtype).to(gpu)
        dist.broadcast(tensor, size - 1)
        check(f"broadcast {dtype}", tensor, given(size - 1, 999, dtype))
    every = [given(one, 999, torch.float32) for one in range(size)]
    outputs = [torch.empty(999, device=gpu) for _ in range(size)]
    dist.all_gather(outputs, given(rank, 999, torch.float32).to(gpu))
    for one, wanted in zip(outputs, every, strict=True):
        check("all_gather", one, wanted)
    output = torch.empty(999 * size, device=gpu)
    dist.all_gather_into_tensor(output, given(rank, 999, torch.float32).to(gpu))
    check("all_gather_into_tensor", output, torch.cat(every))
    uneven = [torch.empty(one + 1, device=gpu) for one in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank), device=gpu))
    for one, output in enumerate(uneven):
        check("all_gather, uneven", output, torch.full((one + 1,), float(one)))
    gathered = [torch.empty(999, device=gpu) for _ in range(size)] if rank == 0 else None
    dist.gather(given(rank, 999, torch.float32).to(gpu), gathered)
    for one, wanted in zip(gathered or [], every, strict=False):
        check("gather", one, wanted)
    output = torch.empty(999, device=gpu)
    dist.scatter(output, [one.to(gpu) for one in every] if rank == 0 else None)
    check("scatter", output, every[rank])
    output = torch.empty(size, device=gpu)
    dist.all_to_all_single(output, torch.full((size,), float(rank), device=gpu))
    check("all_to_all_single", output, torch.arange(size).float())
    outputs = [torch.empty(one + 1, device=gpu) for one in range(size)]
    dist.all_to_all(outputs, [torch.full((rank + 1,), float(rank), device=gpu) for _ in range(size)])
    for one, output in enumerate(outputs):
        check("all_to_all", output, torch.full((one + 1,), float(one)))
    output = torch.zeros(50_000, device=gpu)
    requests = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, given(rank, 50_000, torch.float32).to(gpu), (rank + 1) % size),
            dist.P2POp(dist.irecv, output, (rank - 1) % size),
        ]
    )
    for request in requests:
        request.wait()
    check("send and recv", output, given((rank - 1) % size, 50_000, torch.float32))
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": one} for one in range(size)]


def order() -> None:
    """An operation follows what the caller's stream had queued, and its result is there for every stream."""
    for count in (1000, 3_000_000):
        stream, reader = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            tensor = torch.zeros(count, device=gpu)
            torch.cuda._sleep(50_000_000)
            tensor += rank + 1
            begin = time.monotonic()
            work = dist.all_reduce(tensor, async_op=True)
            called_s = time.monotonic() - begin
            assert called_s < 0.02, f"an asynchronous call blocked for {called_s} s"
        work.wait()
        with torch.cuda.stream(reader):
            check(f"order {count}", tensor * 1, torch.full((count,), size * (size + 1) / 2))
        # Several at once, in the order of their calls.
        tensors = [torch.full((count,), float(one), device=gpu) for one in range(8)]
        for work in [dist.all_reduce(one, async_op=True) for one in tensors]:
            work.wait()
        for one, tensor in enumerate(tensors):
            check("several", tensor, torch.full((count,), float(one * size)))
        future = dist.all_reduce(torch.ones(count, device=gpu), async_op=True).get_future()
        check("future", future.wait()[0], torch.full((count,), float(size)))


def refusals() -> None:
    graph = torch.cuda.CUDAGraph()
    tensor = torch.ones(10, device=gpu)
    stream = torch.cuda.Stream()
    try:
        with torch.cuda.graph(graph, stream=stream):
            dist.all_reduce(tensor)
        raise AssertionError("the capture was not refused")
    except RuntimeError as error:
        assert "cannot be captured in a CUDA graph" in str(error), error
    dist.all_reduce(tensor)
    check("after a refused capture", tensor, torch.full((10,), float(size)))


reductions()
copies()
order()
refusals()
dist.barrier()
dist.destroy_process_group()
print("done")
