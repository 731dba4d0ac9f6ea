"""all_reduce between several GPUs of this machine: ccore against NCCL, through torch.distributed, one GPU per rank.

Both libraries live in the same ranks, and their runs are interleaved. Each figure is for one operation in a CUDA graph
of 20, launched up to 10 times in a row: the median over the repeats, of the slowest rank. Where the path of ccore
cannot be captured (no peer access), both are called without a graph, and the header says so. Every graph is checked on
the GPU before and after it is timed. NVLink multicast is off (NCCL_NVLS_ENABLE=0). One run takes one to two minutes.

    python benchmarks/gpu_several.py [--gpus 2] [--sizes 1024,...] [--repeats 9] [--hidden]
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

SIZES = ",".join(str(1024 * 4**power) for power in range(10))  # 1 KiB to 256 MiB
IN_GRAPH = 20
MOST_LAUNCHES = 10
WANTED_S = 0.004  # of one repeat
DEADLINE_S = 220.0


class Bench:
    """The groups of the ranks, and one buffer; each size uses its first bytes."""

    def __init__(self, most_bytes: int) -> None:
        """Join, and make one operation with each library."""
        import collective_core.torch
        import collective_core.torch_backend  # registers ccore
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(self.device)
        dist.init_process_group("gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.buffer = torch.zeros(most_bytes // 4, device=self.device)
        self.groups: dict[str, Any] = {name: dist.new_group(backend=name) for name in ("nccl", "ccore")}
        for group in self.groups.values():
            dist.all_reduce(self.buffer[:1], group=group)
        torch.cuda.synchronize()
        described = collective_core.torch.describe(self.groups["ccore"])
        self.path = described["cuda"]
        self.captures = described["cuda_path"] == "kernel"

    def slowest(self, seconds: float) -> float:
        """Return the largest of all ranks' numbers; it is also the barrier."""
        number = self.torch.tensor([seconds], dtype=self.torch.float64)
        self.dist.all_reduce(number, self.dist.ReduceOp.MAX)
        return float(number.item())

    def prepare(self, name: str, tensor: Any) -> tuple[Callable[[], object], Any]:
        """Return what runs IN_GRAPH operations of a library, and its graph (None without one)."""
        torch, dist = self.torch, self.dist

        def calls() -> None:
            for _ in range(IN_GRAPH):
                dist.all_reduce(tensor, group=self.groups[name])

        calls()  # exports the buffer, and makes NCCL's connections, outside of the capture
        torch.cuda.synchronize()
        if not self.captures:
            return calls, None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            calls()
        return graph.replay, graph

    def check(self, name: str, run: Callable[[], object], tensor: Any) -> None:
        """Run once from known values; SystemExit for a wrong element. Sums of powers of two are exact."""
        tensor.fill_(1.0)
        self.torch.cuda.synchronize()
        self.slowest(0.0)
        run()
        wanted = self.torch.full_like(tensor, float(self.size)) ** IN_GRAPH
        wrong = int((tensor != wanted).sum().item()) if self.size & (self.size - 1) == 0 else 0
        if wrong or not self.torch.allclose(tensor, wanted):
            raise SystemExit(f"{name}: {wrong} wrong elements of {tensor.numel()} on rank {self.rank}")
        tensor.zero_()

    def once(self, run: Callable[[], object], launches: int) -> float:
        """Return the seconds of one operation on this rank."""
        self.torch.cuda.synchronize()
        self.slowest(0.0)
        begin = time.perf_counter()
        for _ in range(launches):
            run()
        self.torch.cuda.synchronize()
        return (time.perf_counter() - begin) / (launches * IN_GRAPH)

    def medians(self, size_bytes: int, repeats: int) -> dict[str, float]:
        """Return each library's microseconds."""
        tensor = self.buffer[: size_bytes // 4]
        prepared = {name: self.prepare(name, tensor) for name in self.groups}
        launches: dict[str, int] = {}
        for name, (run, _) in prepared.items():
            self.check(name, run, tensor)
            took = self.slowest(self.once(run, 1)) * IN_GRAPH
            launches[name] = max(1, min(MOST_LAUNCHES, int(WANTED_S / took)))
        times: dict[str, list[float]] = {name: [] for name in prepared}
        for _ in range(repeats):
            for name, (run, _) in prepared.items():
                times[name].append(self.once(run, launches[name]))
        found = {name: 1e6 * self.slowest(statistics.median(some)) for name, some in times.items()}
        for name, (run, _) in prepared.items():
            self.check(name, run, tensor)
        # NCCL waits at its end for graphs that hold its communicator.
        for _, graph in prepared.values():
            if graph is not None:
                graph.reset()
        return found


def rank_main(sizes: list[int], repeats: int) -> None:
    """Measure in this rank; rank 0 prints the table."""
    bench = Bench(max(sizes))
    torch = bench.torch
    if bench.rank == 0:
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        how = f"CUDA graphs of {IN_GRAPH}" if bench.captures else "calls without a graph"
        print(
            f"{torch.cuda.get_device_name(bench.device)}, {bench.size} GPUs, torch {torch.__version__}, NCCL {nccl}\n"
            f"ccore: {bench.path}\n"
            f"all_reduce, fp32 sum, in place, {how}, median us per operation; ratio above 1: ccore is faster\n"
            f"{'bytes':>12} {'nccl us':>10} {'ccore us':>10} {'ratio':>7} {'ccore GB/s':>11}",
            flush=True,
        )
    for size_bytes in sizes:
        found = bench.medians(size_bytes, repeats)
        if bench.rank == 0:
            print(
                f"{size_bytes:>12} {found['nccl']:>10.2f} {found['ccore']:>10.2f} "
                f"{found['nccl'] / found['ccore']:>7.2f} {size_bytes / found['ccore'] / 1e3:>11.1f}",
                flush=True,
            )
    bench.slowest(0.0)
    bench.dist.destroy_process_group()


def environment_of(rank: int, hidden: bool) -> dict[str, str]:
    """Return the variables of one rank: all GPUs, or its own alone."""
    if not hidden:
        return {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    return {"RANK": str(rank), "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": str(rank)}


def main() -> int:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--sizes", default=SIZES, help="bytes, separated by commas; multiples of 4")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--hidden", action="store_true", help="each rank sees its own GPU alone")
    options = parser.parse_args()
    if "RANK" in os.environ:
        rank_main([int(size) for size in options.sizes.split(",")], options.repeats)
        return 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(options.gpus),
        "CCORE_JOB_SECRET": f"gpu several {port}",
        "CCORE_CUDA_PATH": "auto",
        "NCCL_NVLS_ENABLE": "0",
    }
    ranks = [
        subprocess.Popen(
            (sys.executable, __file__, *sys.argv[1:]), env={**shared, **environment_of(rank, options.hidden)}
        )
        for rank in range(options.gpus)
    ]
    return outcome(ranks, time.monotonic() + DEADLINE_S)


def outcome(ranks: list[subprocess.Popen[bytes]], until: float) -> int:
    """Return 0 when all ranks have ended well. At the first failure, or at the deadline, end the others."""
    try:
        while any(rank.poll() is None for rank in ranks):
            if any(rank.returncode for rank in ranks):
                break
            if time.monotonic() > until:
                print(f"the ranks did not end within {DEADLINE_S:g} s", file=sys.stderr)
                break
            time.sleep(0.1)
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    return 1 if any(rank.returncode for rank in ranks) else 0


if __name__ == "__main__":
    sys.exit(main())
