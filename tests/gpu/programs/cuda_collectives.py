"""A rank that checks every call of torch.distributed on CUDA tensors, against the same arithmetic on the host."""

from __future__ import annotations

import functools
import itertools
import os
import time

import collective_core.torch
import collective_core.torch_backend  # registers ccore
import torch
import torch.distributed as dist

dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
gpu = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(gpu)
SIZES = (0, 1, 7, 1024, 100_003, 3_000_001)


def given(of: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    """What a rank contributes: small integers, so that sums are exact in every type and order."""
    values = torch.randint(-3, 4, (count,), generator=torch.Generator().manual_seed(1000 * of + count))
    return values.abs().to(dtype) if dtype in (torch.uint8, torch.bool) else values.to(dtype)


def check(name: str, got: torch.Tensor, wanted: torch.Tensor) -> None:
    assert got.device == gpu, (name, got.device)
    assert torch.equal(got.cpu(), wanted), (rank, name, got.cpu().flatten()[:8], wanted.flatten()[:8])


def uneven_blocks() -> None:
    output = torch.empty(rank + 1, device=gpu)
    dist.reduce_scatter(output, [torch.ones(of + 1, device=gpu) for of in range(size)])
    check("reduce_scatter of a list of several sizes", output, torch.full((rank + 1,), float(size)))


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
    for dtype in (torch.float32, torch.float64):
        factor = 0.5 if rank == 0 else 2.0
        tensor = given(rank, 1000, dtype).to(gpu)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
        every = [given(one, 1000, dtype) * (2.0 if one else 0.5) for one in range(size)]
        check(f"PREMUL_SUM {dtype}", tensor, torch.stack(every).sum(0))
    for op, combine in (
        (dist.ReduceOp.BAND, torch.bitwise_and), (dist.ReduceOp.BOR, torch.bitwise_or),
        (dist.ReduceOp.BXOR, torch.bitwise_xor), (dist.ReduceOp.PRODUCT, torch.mul),
    ):  # fmt: skip
        tensor = given(rank, 1001, torch.int32).to(gpu)
        dist.all_reduce(tensor, op)
        check(
            f"{op}", tensor, functools.reduce(combine, [given(one, 1001, torch.int32) for one in range(size)])
        )
    average = torch.stack([given(one, 1000, torch.float64) for one in range(size)]).mean(0)
    tensor = given(rank, 1000, torch.float64).to(gpu)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    torch.testing.assert_close(tensor.cpu(), average)
    tensor = torch.full((100,), complex(rank, 1), device=gpu)
    dist.all_reduce(tensor)
    check("complex", tensor, torch.full((100,), complex(size * (size - 1) // 2, size)))
    tensors = [given(rank, count, torch.float32).to(gpu) for count in (5, 1000, 70_000)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        every = [given(one, tensor.numel(), torch.float32) for one in range(size)]
        check("coalesced", tensor, torch.stack(every).sum(0))
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


def to_itself() -> None:
    """Only one rank calls: the first use of the device must not wait for the others."""
    if rank == 0:
        sent, received = torch.arange(5.0, device=gpu), torch.empty(5, device=gpu)
        calls = [dist.P2POp(dist.irecv, received, 0), dist.P2POp(dist.isend, sent, 0)]
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        check("a send to itself", received, torch.arange(5.0))


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
    rows = torch.arange(2 * size * (size + 1) // 2).view(-1, 2).float().to(gpu) + 1000 * rank
    received = torch.empty((rank + 1) * size, 2, device=gpu)
    dist.all_to_all_single(received, rows, [rank + 1] * size, [one + 1 for one in range(size)])
    begin = rank * (rank + 1) // 2
    wanted_rows = [
        torch.arange(2 * begin, 2 * (begin + rank + 1)).view(-1, 2).float() + 1000 * one
        for one in range(size)
    ]
    check("all_to_all_single, uneven", received, torch.cat(wanted_rows))
    strided = torch.empty(100, 2, device=gpu).t()
    if size > 1:
        if rank == 0:
            dist.send(given(0, 200, torch.float32).to(gpu).view(100, 2).t(), 1)
        if rank == 1:
            dist.recv(strided, 0)
            check("recv, transposed", strided, given(0, 200, torch.float32).view(100, 2).t())
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
    """An operation follows what the caller's stream had queued, and comes before what waits for it."""
    for count in (1000, 3_000_000):
        stream, reader = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            tensor = torch.zeros(count, device=gpu)
            torch.cuda._sleep(50_000_000)
            tensor += rank + 1
            begin = time.monotonic()
            work = dist.all_reduce(tensor, async_op=True)
            called_s = time.monotonic() - begin
            # Without MPS, the CPUs add small data, and wait for it.
            if count > 1000 or collective_core.torch.describe()["cuda_path"] not in ("host", "stream"):
                assert called_s < 0.02, f"an asynchronous call blocked for {called_s} s"
        with torch.cuda.stream(reader):
            work.wait()
            check(f"order {count}", tensor * 1, torch.full((count,), size * (size + 1) / 2))
        # Several at once, in the order of their calls.
        tensors = [torch.full((count,), float(one), device=gpu) for one in range(8)]
        for work in [dist.all_reduce(one, async_op=True) for one in tensors]:
            work.wait()
        for one, tensor in enumerate(tensors):
            check("several", tensor, torch.full((count,), float(one * size)))
        future = dist.all_reduce(torch.ones(count, device=gpu), async_op=True).get_future()
        check("future", future.wait()[0], torch.full((count,), float(size)))


def waits_of_one_rank() -> None:
    """Let one rank call synchronously and the others asynchronously: all get the same values."""
    for count, waiting in itertools.product((1000, 3_000_000), range(size)):
        tensor, block = (
            torch.full((count,), rank + 1.0, device=gpu),
            torch.full((count,), float(rank), device=gpu),
        )
        gathered = torch.empty(size * count, device=gpu)
        scattered = torch.empty(count, device=gpu)
        is_asynchronous = rank != waiting
        works = [
            dist.all_reduce(tensor, async_op=is_asynchronous),
            dist.all_gather_into_tensor(gathered, block, async_op=is_asynchronous),
            dist.reduce_scatter_tensor(scattered, gathered, async_op=is_asynchronous),
        ]
        for work in works:
            if work is not None:
                work.wait()
        check("one rank waits", tensor, torch.full((count,), size * (size + 1) / 2))
        check("one rank waits", gathered, torch.arange(float(size)).repeat_interleave(count))
        check("one rank waits", scattered, torch.full((count,), float(size * rank)))


def tickets() -> None:
    """Wait on other streams, and for operations before and after more than the library has events for."""
    tensors = [torch.full((100,), float(one), device=gpu) for one in range(1500)]
    works = [dist.all_reduce(one, async_op=True) for one in tensors]
    for one in (0, 700, 1499):
        with torch.cuda.stream(torch.cuda.Stream()):
            works[one].wait()
            check(f"ticket {one}", tensors[one] * 1, torch.full((100,), float(one * size)))
    deadline = time.monotonic() + 60
    while not works[0].is_completed():
        assert time.monotonic() < deadline
    options = dist.AllreduceOptions()
    options.asyncOp = False
    transposed = torch.ones(1000, 1000, device=gpu).t()
    for tensor in (torch.ones(1000, 1000, device=gpu), transposed):
        torch.cuda._sleep(50_000_000)
        work = dist.group.WORLD.allreduce([tensor], options)
        with torch.cuda.stream(torch.cuda.Stream()):
            work.wait()
            check("a call that its caller waits for", tensor * 1, torch.full((1000, 1000), float(size)))
    several = [torch.ones(count, device=gpu) for count in (10, 1_000_000, 100)]
    dist.group.WORLD.allreduce_coalesced(several).wait()
    for tensor in several:
        check("coalesced", tensor, torch.full((tensor.numel(),), float(size)))


def captured(mode: str, count: int) -> None:
    """Capture on a stream that the library has not seen, and replay with data that changes."""
    tensor, given_to_it = torch.ones(count, device=gpu), torch.ones(count, device=gpu)
    beside = torch.ones(count, device=gpu)
    dist.all_reduce(tensor)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream(), capture_error_mode=mode):
        tensor.copy_(given_to_it)
        beside.copy_(given_to_it)
        work = dist.all_reduce(beside, async_op=True)
        dist.all_reduce(tensor)
        work.wait()
        beside += 1
    for step in range(1, 6):
        given_to_it.fill_(float(step * (rank + 1)))
        graph.replay()
        check(f"graph {mode} {count}", tensor, torch.full((count,), step * size * (size + 1) / 2))
        check(f"graph {mode} {count}", beside, torch.full((count,), step * size * (size + 1) / 2 + 1))


def graphs() -> None:
    """A captured all_reduce is replayed where the path allows that, and refused with a reason elsewhere."""
    tensor = torch.ones(10, device=gpu)
    dist.all_reduce(tensor)
    graph = torch.cuda.CUDAGraph()
    if collective_core.torch.describe()["cuda_path"] == "kernel":
        for mode in ("global", "thread_local"):
            for count in (1000, 1_000_000):
                captured(mode, count)
    else:
        try:
            with torch.cuda.graph(graph):
                dist.all_reduce(tensor)
            raise AssertionError("the capture was not refused")
        except RuntimeError as error:
            assert "cannot be captured in a CUDA graph" in str(error), error
    tensor = torch.ones(10, device=gpu)
    dist.all_reduce(tensor)
    check("after a graph", tensor, torch.full((10,), float(size)))


def parts() -> None:
    """Reduce and copy parts of one allocation, which peers must find at their place in it."""
    count, whole = 1_000_000, torch.empty(16_000_000, device=gpu)
    every = [given(one, count, torch.float32) for one in range(size)]
    for begin in (0, 4, 1_500_000, 5_000_000, 9_000_004, 15_000_000):
        part = whole[begin : begin + count]
        for name, call, wanted in (
            ("all_reduce", lambda: dist.all_reduce(part), torch.stack(every).sum(0)),  # noqa: B023
            ("broadcast", lambda: dist.broadcast(part, size - 1), every[-1]),  # noqa: B023
        ):
            whole.fill_(100.0 + rank)
            part.copy_(every[rank])
            call()
            check(f"{name} at {begin}", part, wanted)
            around = torch.cat((whole[:begin], whole[begin + count :]))
            assert bool((around == 100.0 + rank).all()), (rank, name, begin)


def both_devices() -> None:
    """One group serves CPU and CUDA tensors, whose calls may alternate."""
    works = []
    for step in range(20):
        tensor = torch.full((2000,), float(step), device=gpu if step % 2 else "cpu")
        works.append((step, tensor, dist.all_reduce(tensor, async_op=True)))
    for step, tensor, work in works:
        work.wait()
        assert torch.equal(tensor.cpu(), torch.full((2000,), float(step * size))), step


to_itself()
reductions()
uneven_blocks()
copies()
order()
waits_of_one_rank()
tickets()
both_devices()
parts()
graphs()
dist.barrier()
print(collective_core.torch.describe()["cuda"])
dist.destroy_process_group()
print("done")
