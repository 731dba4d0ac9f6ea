"""Matrix products beside asynchronous all_reduces: how much nccl and ccore slow each other and the model down.

Each rank has a stream of bf16 products of 4096 x 4096 matrices and a queue of asynchronous all_reduces of 25 MiB, the
size of a bucket of DistributedDataParallel. Both begin at the same event, when everything is queued:

- "products": a product's time while all_reduces run from the first to the last product, over its time alone;
- "pending": a product's time while an all_reduce waits for the other ranks, over its time alone;
- "all_reduces": an all_reduce's time while products run from the first to the last one, over its time alone.

A ratio is inf if what was measured ended after everything beside it. The tables have medians over launches, with the
smallest and the largest in brackets, of the slowest rank. The ranks share one GPU under an MPS server of this script,
or have a GPU each, if there are enough. Without --variants, NCCL is left out where ranks share a GPU, since its data
takes sockets there, unless it is 2.30 or newer.

    python benchmarks/gpu_overlap.py [--ranks 2] [--variants nccl,ccore] [--repeats 3] [--quick]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import gpu_ranks  # noqa: E402

VARIANTS = ("nccl", "ccore")
EDGE, BYTES = 4096, 25 << 20
COUNT = 12  # of what is measured
# What runs beside it would take this many times as long alone, because it must end later.
LONGER = 4
COLUMNS = {
    "product": "product us",
    "products": "products slower",
    "pending": "slower while pending",
    "all_reduce": "all_reduce us",
    "all_reduces": "all_reduces slower",
}
ROUNDS = 4  # of each measurement; the first warms up
QUEUE_S = 0.1  # in which the host queues a round
HIGHEST_CLOCK_HZ = 2e9
LIMIT_S = 90
MOST_SLOWDOWN = 1.5  # of products beside ccore


class Streams:
    """The work of a rank: products on one stream, all_reduces on that of a group."""

    def __init__(self, device: Any) -> None:
        """Make the matrices and the buffer."""
        import torch

        self.torch = torch
        self.left, self.right = (
            torch.randn(EDGE, EDGE, device=device, dtype=torch.bfloat16) for _ in range(2)
        )
        self.product = torch.mm(self.left, self.right)  # which loads the kernel
        self.buffer = torch.zeros(BYTES // 4, device=device)
        self.products, self.sums = torch.cuda.Stream(), torch.cuda.Stream()
        self.cycles = int(QUEUE_S * HIGHEST_CLOCK_HZ)

    def round(self, group: Any, products: int, sums: int, late_s: float = 0.0) -> tuple[float, float]:
        """Return the ms of all products and of all sums, which begin together; those of rank 1 begin late."""
        torch, dist = self.torch, self.torch.distributed
        begin, products_end, sums_end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        torch.cuda.synchronize()
        dist.barrier()
        with torch.cuda.stream(self.products):
            torch.cuda._sleep(self.cycles)
            begin.record()
            for _ in range(products):
                torch.mm(self.left, self.right, out=self.product)
            products_end.record()
        with torch.cuda.stream(self.sums):
            begin.wait()
            if late_s and dist.get_rank() == 1:
                torch.cuda._sleep(int(late_s * HIGHEST_CLOCK_HZ))
            works = [dist.all_reduce(self.buffer, group=group, async_op=True) for _ in range(sums)]
            for work in works:
                work.wait()
            sums_end.record()
        if begin.query():
            raise SystemExit(f"the host did not queue {products} products and {sums} sums within {QUEUE_S} s")
        torch.cuda.synchronize()
        return begin.elapsed_time(products_end), begin.elapsed_time(sums_end)


def measured(streams: Streams, group: Any) -> dict[str, float]:
    """Return the slowdowns of both, and the us of each alone, on the slowest rank."""
    import torch
    import torch.distributed as dist

    found: dict[str, list[float]] = {name: [] for name in COLUMNS}
    dist.all_reduce(streams.buffer, group=group, async_op=True).wait()  # makes the connections
    for number in range(ROUNDS):
        product_alone = streams.round(group, COUNT, 0)[0]
        sum_alone = streams.round(group, 0, COUNT)[1]
        # The same on all ranks.
        ratios = torch.tensor([product_alone / sum_alone, sum_alone / product_alone])
        dist.all_reduce(ratios, dist.ReduceOp.MAX)
        sums_beside = math.ceil(COUNT * LONGER * float(ratios[0]))
        products_beside = math.ceil(COUNT * LONGER * float(ratios[1]))
        products, until = streams.round(group, COUNT, sums_beside)
        slower_products = products / product_alone if products < until else math.inf
        until, sums = streams.round(group, products_beside, COUNT)
        slower_sums = sums / sum_alone if sums < until else math.inf
        pending, _ = streams.round(group, COUNT, 1, late_s=1e-3 * LONGER * product_alone)
        if number:
            found["product"].append(1e3 * product_alone / COUNT)
            found["all_reduce"].append(1e3 * sum_alone / COUNT)
            found["products"].append(slower_products)
            found["pending"].append(pending / product_alone)
            found["all_reduces"].append(slower_sums)
    slowest = torch.tensor([statistics.median(values) for values in found.values()])
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return dict(zip(found, map(float, slowest), strict=True))


def rank_main(names: list[str]) -> None:
    """Measure in this rank; rank 0 prints JSON."""
    import collective_core.torch_backend  # noqa: F401  # registers ccore
    import torch.distributed as dist

    rank, size, device = gpu_ranks.device_of_rank(uses_nccl="nccl" in names)
    dist.init_process_group("gloo")
    streams = Streams(device)
    found = {name: measured(streams, dist.new_group(backend=name)) for name in names}
    if rank == 0:
        print(json.dumps({"machine": gpu_ranks.machine(device, size), "found": found}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--variants", help="default: nccl,ccore; ccore where ranks share a GPU")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one launch")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        rank_main(options.rank_of.split(","))
        return
    import torch
    from mps_server import NOT_STARTED, mps_server

    shares = torch.cuda.device_count() < options.ranks
    variants = options.variants or ("ccore" if shares else ",".join(VARIANTS))
    with mps_server() as variables:
        if variables is None:
            raise SystemExit(NOT_STARTED)
        launches = [
            gpu_ranks.answer_of(
                ("--rank-of", variants), options.ranks, variables, before_nccl=False, limit_s=LIMIT_S
            )
            for _ in range(1 if options.quick else options.repeats)
        ]
    machine = launches[0]["machine"]
    print(
        f"{machine['gpus']} x {machine['gpu']}, {options.ranks} ranks, MPS, torch {machine['torch']}, NCCL "
        f"{machine['nccl']}, bf16 products of {EDGE} beside all_reduces of {BYTES >> 20} MiB"
    )
    print(f"{'':>8}" + "".join(f"{text:>26}" for text in COLUMNS.values()))
    for name in variants.split(","):
        row = f"{name:>8}"
        for column in COLUMNS:
            values = [one["found"][name][column] for one in launches]
            row += f"{f'{statistics.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]':>26}"
        print(row)
    if "ccore" in variants.split(","):
        slowdown = statistics.median(one["found"]["ccore"]["products"] for one in launches)
        met = "met " if slowdown <= MOST_SLOWDOWN else "MISS"
        print(f"{met} products beside ccore {slowdown:.2f} times as long; goal <= {MOST_SLOWDOWN:g}")


if __name__ == "__main__":
    main()
