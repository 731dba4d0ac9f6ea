"""A rank that does every collective with MPI and with collective_core and compares. Run it under mpirun.

Prints, on rank 0, JSON: how many cases of each collective were compared, and what differed. Integers, moved data,
minima and maxima must agree to the bit. Sums and products of floats may differ by the roundings of two orders of
adding, which is a number of units in the last place of the sum of the magnitudes. MPI has no 16-bit floats: those are
compared with float64. Every sum and product must have the same bits on all ranks.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from collective_core.communicator import Buffer, Communicator, Dtype, Redop, Transport, get_unique_id
from collective_core.cpu_reduce import CpuReduce
from collective_core.topk import Residual, Topk
from mpi4py import MPI

Array = np.ndarray[Any, Any]
world = MPI.COMM_WORLD
rank, size = world.rank, world.size


@dataclass(frozen=True)
class Kind:
    """An element type: how numpy stores it, what MPI calls it, and the distance of 1 to the next number.

    The distance is 0 for integers. Of MPI's types those of fixed width are named: mpi4py would take unsigned long for
    numpy's uint64, of which Open MPI 4.1 finds the minimum as if it had a sign.
    """

    dtype: Dtype
    storage: Any
    mpi: MPI.Datatype | None
    epsilon: float = 0.0

    def values(self, stored: Array) -> Array:
        """The numbers, exactly, in a type that numpy calculates with; 16-bit floats as float64."""
        if self.dtype == Dtype.BFLOAT16:
            return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return stored.astype(np.float64) if self.dtype == Dtype.FLOAT16 else stored

    def random(self, generator: np.random.Generator, count: int, op: Redop | None = None) -> Array:
        """Elements in storage; any bits for integers, so that sums wrap around."""
        if not self.epsilon:
            limits = np.iinfo(self.storage)
            return generator.integers(limits.min, limits.max, count, self.storage, endpoint=True)
        low, high = (0.5, 1.5) if op == Redop.PROD else (-8.0, 8.0)
        numbers = generator.uniform(low, high, count)
        if self.dtype == Dtype.BFLOAT16:  # cut off: any will do
            return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return numbers.astype(self.storage)

    def buffer(self, stored: Array) -> Buffer:
        """The array as the library takes it; numpy has no bfloat16, and needs no help for the others."""
        return Buffer(stored.ctypes.data, stored.size, self.dtype, stored)


KINDS = (
    Kind(Dtype.FLOAT64, np.float64, MPI.DOUBLE, 2.0**-52),
    Kind(Dtype.FLOAT32, np.float32, MPI.FLOAT, 2.0**-23),
    Kind(Dtype.FLOAT16, np.float16, None, 2.0**-10),
    Kind(Dtype.BFLOAT16, np.uint16, None, 2.0**-7),
    Kind(Dtype.INT8, np.int8, MPI.INT8_T),
    Kind(Dtype.UINT8, np.uint8, MPI.UINT8_T),
    Kind(Dtype.INT32, np.int32, MPI.INT32_T),
    Kind(Dtype.UINT32, np.uint32, MPI.UINT32_T),
    Kind(Dtype.INT64, np.int64, MPI.INT64_T),
    Kind(Dtype.UINT64, np.uint64, MPI.UINT64_T),
)
MPI_OPS = {
    Redop.SUM: MPI.SUM,
    Redop.PROD: MPI.PROD,
    Redop.MIN: MPI.MIN,
    Redop.MAX: MPI.MAX,
    Redop.AVG: MPI.SUM,
}
NUMPY_OPS: dict[Redop, Any] = {
    Redop.SUM: np.add, Redop.PROD: np.multiply, Redop.MIN: np.minimum, Redop.MAX: np.maximum, Redop.AVG: np.add,
}  # fmt: skip
COUNTS = sorted({0, 1, size - 1, size, size + 1, 13, 127, 4099})
LARGE = 262147  # elements, for one operator of one type
CHUNK_BYTES = 4096  # of cpu_reduce: several for the larger counts
# What is not zero of a vector, and the share of each shard that top-k sends, which is always more.
COMPRESSIBLE = {Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16}
EVERY, TOPK = 8, Topk(ratio=0.3, threshold_bytes=1)

cases: Counter[str] = Counter()
wrong: list[str] = []


def moved(stored: Array) -> Array:
    """As MPI moves it: 16-bit floats as integers."""
    return stored.view(np.uint16) if stored.dtype == np.float16 else stored


def expect(condition: bool, name: str, *about: object) -> None:
    cases[name] += 1
    if not condition:
        wrong.append(f"rank {rank}: {name} {' '.join(map(str, about))}")


def reduced_by_mpi(kind: Kind, op: Redop, source: Array) -> tuple[Array, Array]:
    """What MPI says of the reduction, on all ranks, and by how much a result may differ from it."""
    if kind.mpi is None:
        stored = np.empty((size, source.size), source.dtype)
        world.Allgather(moved(source), moved(stored))
        result: Array = NUMPY_OPS[op].reduce(kind.values(stored), axis=0)
        magnitude = np.abs(kind.values(stored)).sum(axis=0)
    else:
        result = np.empty_like(source)
        world.Allreduce([source, kind.mpi], [result, kind.mpi], MPI_OPS[op])
        magnitude = np.empty(source.size)
        world.Allreduce(np.abs(source.astype(np.float64)), magnitude, MPI.SUM)
    if op == Redop.AVG:
        magnitude /= size
        result = result / size if kind.epsilon else truncated(result)
    if not kind.epsilon or op in {Redop.MIN, Redop.MAX}:
        return result, np.zeros(source.size)
    # Each of the size - 1 additions rounds by half a unit of what is at most the sum of the magnitudes; MPI's does too,
    # and the average rounds once more.
    scale = np.abs(result).astype(np.float64) if op == Redop.PROD else magnitude
    return result, 2 * size * kind.epsilon * scale


def truncated(total: Array) -> Array:
    """Integers divided by the number of ranks, toward zero."""
    count = total.dtype.type(size)
    quotient = total // count
    if np.issubdtype(total.dtype, np.signedinteger):
        quotient += ((total % count != 0) & (total < 0)).astype(total.dtype)
    return quotient


def agrees(kind: Kind, got: Array, expected: Array, tolerance: Array) -> bool:
    numbers = kind.values(got)
    if not tolerance.any():
        return bool(np.array_equal(numbers, expected))
    return bool((np.abs(numbers.astype(np.float64) - expected.astype(np.float64)) <= tolerance).all())


def same_everywhere(stored: Array) -> bool:
    first = stored.copy()
    world.Bcast(moved(first), 0)
    return first.tobytes() == stored.tobytes()


def reductions(name: str, comm: Communicator, kind: Kind, op: Redop, source: Array, truth: Any) -> None:
    """all_reduce, reduce to every root and reduce_scatter of the same elements."""
    expected, tolerance = truth
    about = (name, kind.dtype.name, op.name, source.size)
    target = np.empty_like(source)
    comm.all_reduce(kind.buffer(source), kind.buffer(target), op)
    expect(agrees(kind, target, expected, tolerance) and same_everywhere(target), "all_reduce", *about)
    place = source.copy()
    comm.all_reduce(kind.buffer(place), kind.buffer(place), op)
    expect(place.tobytes() == target.tobytes(), "all_reduce in place", *about)
    target = np.empty_like(source)
    with CpuReduce(comm, chunk_bytes=CHUNK_BYTES) as staged:
        staged.run(kind.buffer(source), kind.buffer(target), op)
    expect(agrees(kind, target, expected, tolerance) and same_everywhere(target), "cpu_reduce", *about)
    for root in range(size):
        target = np.full_like(source, 77)
        comm.reduce(kind.buffer(source), kind.buffer(target), root, op)
        right = agrees(kind, target, expected, tolerance) if rank == root else bool((target == 77).all())
        expect(right, "reduce", *about, root)
    share = source.size // size
    block = np.empty(share, source.dtype)
    comm.reduce_scatter(kind.buffer(source[: share * size]), kind.buffer(block), op)
    mine = slice(rank * share, (rank + 1) * share)
    expect(agrees(kind, block, expected[mine], tolerance[mine]), "reduce_scatter", *about)


def compressed(name: str, comm: Communicator, kind: Kind, op: Redop, source: Array, truth: Any) -> None:
    """Top-k all_reduce of elements that it sends all, so that nothing stays behind: what MPI says of the reduction."""
    expected, tolerance = truth
    about = (name, kind.dtype.name, op.name, source.size)
    target, residual = np.empty_like(source), Residual()
    comm.topk_all_reduce(kind.buffer(source), kind.buffer(target), residual, TOPK, op)
    state = residual.state()
    right = agrees(kind, target, expected, tolerance) and same_everywhere(target) and not any(state.values)
    expect(right, "topk_all_reduce", *about)
    if (name, kind.dtype, source.size) == ("two nodes", Dtype.FLOAT32, COUNTS[-1]):
        # A rank that sends nothing to the other node has nothing to keep.
        expect(world.allreduce(state.steps, op=MPI.MAX) == 1, "topk_all_reduce sent less", *about)


def copies(name: str, comm: Communicator, kind: Kind, count: int, generator: np.random.Generator) -> None:
    """What moves data without arithmetic."""
    about = (name, kind.dtype.name, count)

    def compare(what: str, ours: Array, theirs: Array) -> None:
        expect(ours.tobytes() == theirs.tobytes(), what, *about)

    def pair(elements: int) -> tuple[Array, Array]:
        return np.full(elements, 77, kind.storage), np.full(elements, 77, kind.storage)

    own, own_many = kind.random(generator, count), kind.random(generator, count * size)
    for root in range(size):
        ours, theirs = own.copy(), own.copy()
        comm.broadcast(kind.buffer(ours), root)
        world.Bcast(moved(theirs), root)
        compare("broadcast", ours, theirs)
        ours, theirs = pair(count * size)
        comm.gather(kind.buffer(own), kind.buffer(ours), root)
        world.Gather(moved(own), moved(theirs), root)
        compare("gather", ours, theirs)
        ours, theirs = pair(count)
        comm.scatter(kind.buffer(own_many), kind.buffer(ours), root)
        world.Scatter(moved(own_many), moved(theirs), root)
        compare("scatter", ours, theirs)
    ours, theirs = pair(count * size)
    comm.all_gather(kind.buffer(own), kind.buffer(ours))
    world.Allgather(moved(own), moved(theirs))
    compare("all_gather", ours, theirs)
    ours, theirs = pair(count * size)
    comm.all_to_all(kind.buffer(own_many), kind.buffer(ours))
    world.Alltoall(moved(own_many), moved(theirs))
    compare("all_to_all", ours, theirs)
    uneven(comm, kind, count, generator, compare, pair)
    ours, theirs = pair(count)
    following, previous = (rank + 1) % size, (rank - 1) % size
    with comm.group():
        comm.send(kind.buffer(own), following, tag=count)
        comm.recv(kind.buffer(ours), previous, tag=count)
    world.Sendrecv(moved(own), following, count, moved(theirs), previous, count)
    compare("send and recv", ours, theirs)


def uneven(
    comm: Communicator,
    kind: Kind,
    count: int,
    generator: np.random.Generator,
    compare: Callable[[str, Array, Array], None],
    pair: Callable[[int], tuple[Array, Array]],
) -> None:
    """all_gatherv and all_to_allv with a size of its own for every rank or pair, some of them zero."""
    counts = [(count + 3 * one) % (count + 2) for one in range(size)]
    own = kind.random(generator, counts[rank])
    ours, theirs = pair(sum(counts))
    comm.all_gatherv(kind.buffer(own), kind.buffer(ours), counts)
    world.Allgatherv(moved(own), (moved(theirs), counts))
    compare("all_gatherv", ours, theirs)
    table = [
        [(count + 5 * sender + 3 * taker) % (count + 4) for taker in range(size)] for sender in range(size)
    ]
    leaving, coming = table[rank], [row[rank] for row in table]
    own = kind.random(generator, sum(leaving))
    ours, theirs = pair(sum(coming))
    comm.all_to_all(kind.buffer(own), kind.buffer(ours), leaving, coming)
    world.Alltoallv((moved(own), leaving), (moved(theirs), coming))
    compare("all_to_allv", ours, theirs)


def barriers(comm: Communicator) -> None:
    """No rank leaves before the last has come; the clock is the machine's."""
    for late in range(size):
        if rank == late:
            time.sleep(0.02)
        came = time.monotonic()
        comm.barrier()
        left = time.monotonic()
        expect(world.allreduce(came, MPI.MAX) <= world.allreduce(left, MPI.MIN), "barrier", late)


def joined(**options: Any) -> Communicator:
    unique_id = world.bcast(get_unique_id() if rank == 0 else None, 0)
    return Communicator(rank, size, unique_id, timeout_s=60, init_timeout_s=60, **options)


def main() -> None:
    communicators = {
        "shm": joined(transport=Transport.SHM),
        "tcp": joined(transport=Transport.TCP),
        "two nodes": joined(node_id=f"node {rank % 2}"),
    }
    generator = np.random.default_rng(7000 + rank)
    for kind in KINDS:
        for op in Redop:
            large = [LARGE] if (kind.dtype, op) == (Dtype.FLOAT32, Redop.SUM) else []
            for count in [*COUNTS, *large]:
                source = kind.random(generator, count, op)
                truth = reduced_by_mpi(kind, op, source)
                for name, comm in communicators.items():
                    reductions(name, comm, kind, op, source, truth)
            if kind.dtype not in COMPRESSIBLE or op not in {Redop.SUM, Redop.AVG}:
                continue
            for count in COUNTS:
                source = kind.random(generator, count)
                source[np.arange(count) % EVERY != 0] = 0
                truth = reduced_by_mpi(kind, op, source)
                for name, comm in communicators.items():
                    compressed(name, comm, kind, op, source, truth)
        for count in COUNTS:
            for name, comm in communicators.items():
                copies(name, comm, kind, count, generator)
    for comm in communicators.values():
        barriers(comm)
        comm.destroy()
    every = world.gather((cases, wrong), 0)
    if every is not None:
        problems = [text for _, texts in every for text in texts]
        print(json.dumps({"cases": [dict(one) for one, _ in every], "wrong": problems[:20]}))
    sys.exit(0)


if __name__ == "__main__":
    main()
