"""all_reduce of CUDA tensors between emulated nodes of one machine, on one GPU: dense and by top-k, on GPU and CPU.

Ranks share the GPU; CCORE_INTRA_SIZE cuts them into nodes, between which the data goes over TCP on the loopback
interface. "host" copies the tensor to the host and calls the library for it; "gpu" keeps on the GPU what need not
leave it. All ways run in turn; medians of the slowest rank, in milliseconds.

    python benchmarks/gpu_nodes.py [--ranks 2] [--per-node 1] [--sizes 16777216,268435456] [--repeats 7]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from collective_core.communicator import Communicator, Redop
from collective_core.topk import Residual, Topk
from collective_core.torch.cuda_nodes import CudaNodes
from collective_core.torch.tensors import for_reduction

_RATIO = 0.01
_WARM_UP = 2


class Case:
    """One size: buffers, and the ways to reduce."""

    def __init__(self, communicator: Communicator, nodes: CudaNodes, size_bytes: int) -> None:
        """Allocate on both sides."""
        self.communicator, self.nodes = communicator, nodes
        self.tensor = torch.zeros(size_bytes // 4, device="cuda")
        self.on_host = torch.zeros(size_bytes // 4, pin_memory=True)
        self.here = for_reduction(self.on_host, dist.ReduceOp.SUM)[0]
        self.there = for_reduction(self.tensor, dist.ReduceOp.SUM)[0]
        self.topk = Topk(_RATIO, 1)
        self.residuals = Residual(), Residual()

    def dense_host(self) -> None:
        self.on_host.copy_(self.tensor)
        self.communicator.all_reduce(self.here, self.here)
        self.tensor.copy_(self.on_host)

    def dense_gpu(self) -> None:
        self.nodes.all_reduce(self.tensor, self.there, Redop.SUM, None)

    def topk_host(self) -> None:
        self.on_host.copy_(self.tensor)
        self.communicator.topk_all_reduce(self.here, self.here, self.residuals[0], self.topk)
        self.tensor.copy_(self.on_host)

    def topk_gpu(self) -> None:
        self.nodes.topk_all_reduce(self.tensor, self.there, self.residuals[1], self.topk, Redop.SUM, None)

    def medians(self, repeats: int) -> dict[str, float]:
        """Run all ways in turn; return milliseconds of the slowest rank."""
        ways: dict[str, Callable[[], None]] = {
            "dense host": self.dense_host,
            "dense gpu": self.dense_gpu,
            "topk host": self.topk_host,
            "topk gpu": self.topk_gpu,
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for repeat in range(repeats + _WARM_UP):
            for name, way in ways.items():
                self.tensor.normal_(0, 1e-3)
                torch.cuda.synchronize()
                self.communicator.barrier()
                begin = time.perf_counter()
                way()
                torch.cuda.synchronize()
                took = (ctypes.c_double * 1)(1e3 * (time.perf_counter() - begin))
                self.communicator.all_reduce(took, took, Redop.MAX)
                if repeat >= _WARM_UP:
                    times[name].append(took[0])
        return {name: statistics.median(kept) for name, kept in times.items()}


def rank_main(sizes: list[int], repeats: int) -> None:
    """Measure in this rank; rank 0 prints the table."""
    torch.cuda.set_device(0)
    communicator = Communicator.from_environment(timeout_s=60)
    nodes = CudaNodes(communicator)
    if communicator.rank == 0:
        names = ("dense host", "dense gpu", "topk host", "topk gpu")
        print(f"{torch.cuda.get_device_name()}, {communicator.size} ranks, ratio {_RATIO}, fp32, ms")
        print(f"{'bytes':>11}" + "".join(f"{name:>12}" for name in names) + f"{'dense':>8}{'topk':>8}")
    for size_bytes in sizes:
        median = Case(communicator, nodes, size_bytes).medians(repeats)
        if communicator.rank == 0:
            gains = (median[f"{kind} host"] / median[f"{kind} gpu"] for kind in ("dense", "topk"))
            print(
                f"{size_bytes:>11}"
                + "".join(f"{value:>12.2f}" for value in median.values())
                + "".join(f"{gain:>7.2f}x" for gain in gains),
                flush=True,
            )
    nodes.release()
    communicator.destroy()


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--per-node", type=int, default=1)
    parser.add_argument("--sizes", default="16777216,67108864,268435456")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    if "RANK" in os.environ:
        rank_main([int(size) for size in options.sizes.split(",")], options.repeats)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(options.ranks),
        "CCORE_JOB_SECRET": f"gpu nodes {port}",
        "CCORE_INTRA_SIZE": str(options.per_node),
    }
    ranks = [
        subprocess.Popen([sys.executable, *sys.argv], env={**shared, "RANK": str(rank), "LOCAL_RANK": "0"})
        for rank in range(options.ranks)
    ]
    raise SystemExit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    main()
