"""A rank that checks the calls of torch.distributed on the ccore backend."""

from __future__ import annotations

import gc
import os
import time
import warnings
import weakref
from datetime import timedelta

import collective_core.torch_backend
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

# Old and new spellings are both called below, and torch warns of the old ones.
warnings.simplefilter("ignore", FutureWarning)


def _maximum() -> dist.AllreduceOptions:
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    return options


dist.init_process_group("ccore")
rank, size = dist.get_rank(), dist.get_world_size()
group = dist.group.WORLD
assert isinstance(group, collective_core.torch_backend.CcoreProcessGroup), group
assert dist.get_backend() == "ccore"


def expect(got: torch.Tensor, *values: float) -> None:
    assert got.flatten().tolist() == list(values), (rank, got, values)


assert size == 2
for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32,
              torch.int64):  # fmt: skip
    tensor = torch.tensor([rank + 1, 3], dtype=dtype)
    dist.all_reduce(tensor)
    expect(tensor, 3, 6)
for op, result in (
    (dist.ReduceOp.AVG, 1.5),
    (dist.ReduceOp.PRODUCT, 2),
    (dist.ReduceOp.MIN, 1),
    (dist.ReduceOp.MAX, 2),
):
    tensor = torch.tensor([rank + 1.0])
    dist.all_reduce(tensor, op)
    expect(tensor, result)
flags = torch.tensor([rank == 0, True, False])
dist.all_reduce(flags)
expect(flags, True, True, False)
for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint32, torch.uint64):
    for op, result in (
        (dist.ReduceOp.BAND, [4, 1, 9]),
        (dist.ReduceOp.BOR, [6, 3, 9]),
        (dist.ReduceOp.BXOR, [2, 2, 0]),
    ):
        tensor = torch.tensor([4 if rank else 6, 3 if rank else 1, 9], dtype=dtype)
        dist.all_reduce(tensor, op)
        expect(tensor, *result)
for op, result in (
    (dist.ReduceOp.SUM, [7, 5, 18]),
    (dist.ReduceOp.MIN, [3, 2, 9]),
    (dist.ReduceOp.PRODUCT, [12, 6, 81]),
):
    tensor = torch.tensor([3 + rank, 2 + rank, 9], dtype=torch.int16)  # no arithmetic in the library
    dist.all_reduce(tensor, op)
    expect(tensor, *result)
flags = torch.tensor([rank == 0, True, False])
dist.all_reduce(flags, dist.ReduceOp.BXOR)
expect(flags, True, False, False)
tensor = torch.tensor([1 + 2j, 3j, 1, rank], dtype=torch.complex64)
dist.reduce(tensor, 1, dist.ReduceOp.PRODUCT)
assert tensor.tolist() == ([-3 + 4j, -9, 1, 0] if rank == 1 else [1 + 2j, 3j, 1, 0]), tensor
tensor = torch.zeros(2, dtype=torch.int16)
dist.reduce_scatter_tensor(tensor, torch.arange(4, dtype=torch.int16) + rank, dist.ReduceOp.MAX)
expect(tensor, 1 + 2 * rank, 2 + 2 * rank)
tensor = torch.tensor([1 + 2j, 3j], dtype=torch.complex128)
group.allreduce([tensor]).wait()
assert tensor.tolist() == [2 + 4j, 6j]
# Rank 0 has two entries, rank 1 one; they share the index (1, 2).
sparse = torch.sparse_coo_tensor(
    [[0, 1], [0, 2]] if rank == 0 else [[1], [2]], [[1.0, 2.0]] * (2 - rank), (2, 3, 2)
)
dist.all_reduce(sparse)
assert sparse.is_coalesced() and sparse._nnz() == 2
expect(sparse.to_dense(), 1, 2, *[0] * 8, 2, 4)
with torch.inference_mode():  # of which the backend's own thread knows nothing
    sparse = torch.sparse_coo_tensor([[rank, 0]], [1.0, 4.0], (2,))
    dist.all_reduce(sparse, async_op=True).wait()
expect(sparse.to_dense(), 9, 1)
# A default device is for what the program makes, and not for what is made to exchange it.
# A synchronous call may run on this thread, which has that default.
listed = [torch.zeros(2), torch.zeros(2)]
with torch.device("meta"):
    dist.all_gather(listed, torch.full((2,), rank + 1.0, device="cpu"))
    dist.all_reduce(sparse)
expect(torch.cat(listed), 1, 1, 2, 2)
expect(sparse.to_dense(), 18, 2)
# The memory of these has the conjugate, and the negative, of what they are.
turned, negative = torch.tensor([1 + 2j]).conj(), torch.tensor([1 + 2j]).conj().imag
odd = turned if rank == 1 else torch.zeros(1, dtype=torch.complex64)
from_1 = dist.BroadcastOptions()
from_1.rootRank = 1
group.broadcast([odd], from_1).wait()  # torch's own function refuses them
assert odd.tolist() == [1 - 2j]
listed = [torch.zeros(1), torch.zeros(1)]
dist.all_gather(listed, negative)
expect(torch.cat(listed), -2, -2)
dist.all_reduce(negative, dist.ReduceOp.MIN)
expect(negative, -2)
strided = torch.arange(8.0).view(4, 2).t()
dist.all_reduce(strided)
expect(strided, 0, 4, 8, 12, 2, 6, 10, 14)

work = dist.all_reduce(torch.ones(1 << 20), async_op=True)
future = work.get_future()
assert future.wait()[0][-1] == 2
assert work.wait() and work.is_completed() and work.is_success()
late = torch.ones(3)
works = [dist.all_reduce(late, async_op=True) for _ in range(5)]
dist.all_reduce(late)  # must queue behind them
expect(late, 64, 64, 64)
assert all(one.is_completed() for one in works)

tensor = torch.tensor([float(rank)])
dist.broadcast(tensor, 1)
expect(tensor, 1)
odd = torch.tensor([rank], dtype=torch.complex64)  # no arithmetic in the library, moved as bytes
dist.broadcast(odd, 1)
expect(odd, 1)
tensor = torch.tensor([rank + 1.0])
dist.reduce(tensor, 0)
expect(tensor, 3 if rank == 0 else 2)


def expect_released(kept: weakref.ref[object]) -> None:
    deadline = time.monotonic() + 30
    while kept() is not None:  # the worker drops it a moment after its end, also without another task
        assert time.monotonic() < deadline
        gc.collect()
        time.sleep(0.01)


# If only C++ holds a Work, its Python part must live until the result is read, and no longer.
for tensor, is_small in ((torch.ones(1), True), (torch.ones(1000), False), (torch.ones(1000)[:1], False)):
    work = group.allreduce([tensor], dist.AllreduceOptions())
    kept = weakref.ref(work)
    dist.barrier()  # it has ended by now
    del work
    gc.collect()
    still = kept()
    assert still is not None and still.is_completed() and still.wait()
    del still
    if is_small:  # kept until the next wait, because DDP requests the future after its wait
        gc.collect()
        assert kept() is not None
        dist.barrier()
    expect_released(kept)

listed = [torch.zeros(2) for _ in range(2)]
dist.all_gather(listed, torch.tensor([rank, -rank], dtype=torch.float32))
expect(torch.stack(listed), 0, 0, 1, -1)
for gather in (dist.all_gather_into_tensor, group._allgather_base):
    tensor = torch.zeros(2)
    gather(
        tensor, torch.tensor([rank + 5.0])
    ).wait() if gather is not dist.all_gather_into_tensor else gather(tensor, torch.tensor([rank + 5.0]))
    expect(tensor, 5, 6)
tensor = torch.zeros(2)
dist.reduce_scatter_tensor(tensor, torch.arange(4.0))
expect(tensor, *((0, 2) if rank == 0 else (4, 6)))
tensor = torch.zeros(1)
dist.reduce_scatter(tensor, [torch.tensor([1.0]), torch.tensor([2.0])])
expect(tensor, 2 * (rank + 1))
tensor = torch.zeros(1 + rank)
dist.reduce_scatter(tensor, [torch.tensor([1.0]), torch.tensor([2.0, 3.0])], dist.ReduceOp.AVG)
expect(tensor, *((1,) if rank == 0 else (2, 3)))
listed = [torch.zeros(1) for _ in range(2)]
dist.gather(torch.tensor([rank + 1.0]), listed if rank == 1 else None, dst=1)
expect(torch.stack(listed), *((1, 2) if rank == 1 else (0, 0)))
tensor = torch.zeros(1)
dist.scatter(tensor, [torch.tensor([7.0]), torch.tensor([8.0])] if rank == 0 else None, src=0)
expect(tensor, 7 + rank)
tensor = torch.zeros(2)
dist.all_to_all_single(tensor, torch.tensor([10.0 * rank, 10.0 * rank + 1]))
expect(tensor, rank, 10 + rank)
listed = [torch.zeros(1) for _ in range(2)]
dist.all_to_all(listed, [torch.tensor([20.0 * rank]), torch.tensor([20.0 * rank + 1])])
expect(torch.stack(listed), rank, 20 + rank)
# Uneven: rank r sends r + 1 rows to rank 0 and 2 to rank 1.
source = torch.arange(2.0 * (rank + 3)).view(-1, 2) + 100 * rank
tensor = torch.zeros(3 if rank == 0 else 4, 2)
dist.all_to_all_single(tensor, source, [1, 2] if rank == 0 else [2, 2], [rank + 1, 2])
expect(tensor, *((0, 1, 100, 101, 102, 103) if rank == 0 else (2, 3, 4, 5, 104, 105, 106, 107)))
for exchange in (group.alltoall_base, group.all_to_all_single):
    bytewise = torch.zeros(2, dtype=torch.complex64)
    exchange(bytewise, torch.tensor([rank + 1j, rank + 2j], dtype=torch.complex64), [1, 1], [1, 1]).wait()
    assert bytewise.tolist() == [complex(0, rank + 1), complex(1, rank + 1)]
listed = [torch.zeros(rank + 1), torch.zeros(rank + 1)]
dist.all_to_all(listed, [torch.full((1,), rank + 5.0), torch.full((2,), rank + 7.0)])
expect(torch.cat(listed), *((5, 6) if rank == 0 else (7, 7, 8, 8)))
listed = [torch.zeros(1), torch.zeros(3)]
dist.all_gather(listed, torch.full((1 + 2 * rank,), rank + 1.0))
expect(torch.cat(listed), 1, 2, 2, 2)
tensor = torch.full((100_000,), rank + 1.0)
dist.reduce(tensor, 1, dist.ReduceOp.AVG)
expect(tensor[[0, -1]], *((1, 1) if rank == 0 else (1.5, 1.5)))
strided = torch.zeros(3, 2).t()
dist.scatter(strided, [torch.ones(2, 3), torch.full((2, 3), 2.0)] if rank == 1 else None, src=1)
expect(strided, *[rank + 1.0] * 6)
with dist._coalescing_manager():
    several = [torch.ones(2), torch.ones(3)]
    for one in several:
        dist.all_reduce(one)
expect(torch.cat(several), 2, 2, 2, 2, 2)

tensor = torch.tensor([rank + 3.0])
if rank == 0:
    dist.send(tensor, 1, tag=5)
    assert dist.recv(tensor, 1) == 1
else:
    got = torch.zeros(1)
    assert dist.recv(got, 0, tag=5) == 0
    expect(got, 3)
    dist.send(tensor, 0)
expect(tensor, 4)
# From any rank that sends, in the order of each rank.
for value in (1, 2):
    if rank == 0:
        dist.send(torch.full((3,), value), 1)
    else:
        anyone = torch.zeros(3, dtype=torch.int64)
        assert dist.recv(anyone) == 0
        assert (anyone == value).all()
# Neither send can end before the other rank receives, and both ranks send first.
large, large_got = torch.full((1 << 22,), rank + 1.0), torch.zeros(1 << 22)
sent, received = dist.isend(large, 1 - rank), dist.irecv(large_got, 1 - rank)
dist.all_reduce(tensor)  # behind both
expect(tensor, 8)
assert sent.is_completed() and received.is_completed() and received.wait()
expect(large_got[[0, -1]], 2 - rank, 2 - rank)
columns = torch.zeros(3, 2).t()
odd = torch.tensor([True, False])
works = dist.batch_isend_irecv(
    [
        dist.P2POp(dist.irecv, columns, 1 - rank),
        dist.P2POp(dist.irecv, odd, 1 - rank),
        dist.P2POp(dist.isend, torch.arange(6.0).view(2, 3) + rank, 1 - rank),
        dist.P2POp(dist.isend, torch.tensor([False, True]), 1 - rank),
    ]
)
for one in works:
    one.wait()
expect(columns, *(value + 1.0 - rank for value in range(6)))
assert odd.tolist() == [False, True]

# A copy back that torch refuses is the receiver's error, and not the end of the thread that serves it.
if rank == 0:
    dist.send(torch.ones(4), 1)
else:
    try:
        dist.recv(torch.zeros(1).expand(4), 0)
    except RuntimeError as error:
        assert "single memory location" in str(error), error
    else:
        raise AssertionError("one number was received as four")
# A program need not wait for a send; what was sent is not kept for that.
if rank == 0:
    gone = torch.ones(5)
    dist.isend(gone, 1)
    of_gone = weakref.ref(gone)
    del gone
else:
    dist.recv(torch.zeros(5), 0)
dist.barrier()
if rank == 0:
    deadline = time.monotonic() + 30
    while of_gone() is not None:
        assert time.monotonic() < deadline
        gc.collect()
        time.sleep(0.01)

objects: list[object] = [None, None]
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
objects = [("from", rank)]
dist.broadcast_object_list(objects, src=1)
assert objects == [("from", 1)]
dist.barrier()

pair = dist.new_group([0, 1], backend="ccore")
tensor = torch.ones(1)
dist.all_reduce(tensor, group=pair)
expect(tensor, 2)
assert pair.group_name and pair.group_name != group.group_name
# Functional collectives, on which sharded tensors stand, find a group by its name.
alone = [dist.new_group([0]), dist.new_group([1])][rank]
for of, total in ((pair, 2), (alone, 1), (group, 2)):
    expect(functional.all_reduce(torch.ones(1), "sum", of), total)
    expect(functional.all_gather_tensor(torch.full((1,), 5.0), 0, of), *[5] * total)
    expect(functional.reduce_scatter_tensor(torch.full((total,), 3.0), "sum", 0, of), 3 * total)

# torch's short forms, without lists and options.
tensor, other = torch.full((2,), 1.0 + rank), torch.zeros(2)
group.allreduce(tensor).wait()
expect(tensor, 3, 3)
group.allreduce([tensor], dist.ReduceOp.MAX).wait()
group.allreduce(tensor, op=dist.ReduceOp.MIN, timeout=timedelta(seconds=20)).wait()
expect(tensor, 3, 3)
group.broadcast(tensor if rank == 1 else other, root=1).wait()
expect(tensor if rank == 1 else other, 3, 3)
group.reduce(tensor, 1, dist.ReduceOp.SUM).wait()
expect(tensor, *[3 if rank == 0 else 6] * 2)
parts = [torch.zeros(1), torch.zeros(1)]
group.allgather(parts, torch.full((1,), float(rank))).wait()
expect(torch.cat(parts), 0, 1)
group.gather(parts if rank == 0 else [], torch.full((1,), 5.0 + rank), 0).wait()
expect(torch.cat(parts), *((5, 6) if rank == 0 else (0, 1)))
group.scatter(parts[0], [torch.full((1,), 7.0), torch.full((1,), 8.0)] if rank == 1 else [], 1).wait()
expect(parts[0], 7 + rank)
group.reduce_scatter(parts[1], [torch.full((1,), 1.0), torch.full((1,), 2.0)], dist.ReduceOp.SUM).wait()
expect(parts[1], 2 + 2 * rank)
group.alltoall(parts, [torch.full((1,), 10.0 * rank), torch.full((1,), 10.0 * rank + 1)]).wait()
expect(torch.cat(parts), rank, 10 + rank)
group.barrier(timeout=timedelta(seconds=20)).wait()
# Every argument by its name.
tensor = torch.full((2,), 1.0 + rank)
group.allreduce(tensors=[tensor], opts=dist.AllreduceOptions()).wait()
expect(tensor, 3, 3)
group.allgather([parts], inputs=[torch.full((1,), float(rank))]).wait()
expect(torch.cat(parts), 0, 1)
group.alltoall_base(output=other, input=tensor * rank, output_split_sizes=[], input_split_sizes=[]).wait()
expect(other, 0, 3)
try:
    group.broadcast(tensor, 0, op=dist.ReduceOp.SUM)
except TypeError as error:
    assert "expected root, timeout" in str(error), error
else:
    raise AssertionError("a broadcast took an operator")

# What torch asks before it takes a way of NCCL's.
backend = group._get_backend(torch.device("cpu"))
assert not any((backend.supports_coalescing, backend.supports_shrinking, backend.supports_splitting))
assert not backend.supports_time_estimate and not backend.supports_tensor_alloc(torch.device("cpu"))

for call in (
    lambda: dist.all_reduce(torch.ones(1), dist.ReduceOp.BXOR),
    lambda: dist.all_reduce(torch.ones(1, dtype=torch.complex64), dist.ReduceOp.MAX),
    lambda: group.allreduce([torch.ones(1, dtype=torch.complex64)], _maximum()).wait(),
    lambda: dist.all_reduce(torch.ones(2).to_sparse(), dist.ReduceOp.MAX),
):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        print("refused:", str(error).splitlines()[0])
tensor = torch.ones(1)
dist.all_reduce(tensor)  # a refused call harms no rank
expect(tensor, 2)
dist.destroy_process_group()
print("done", os.getpid())
