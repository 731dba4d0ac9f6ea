"""all_reduce of CUDA tensors through torch.distributed: ccore against gloo, ranks that share one GPU.

Both groups live in the same ranks, and their calls are interleaved. Each time is the median over the repeats of the
slowest rank, from the call to the end of the device's work. Every result is checked.

    python benchmarks/gpu_torch_vs_gloo.py [--ranks 2] [--sizes 4096,65536,1048576,...] [--repeats 11]
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time

SIZES = "4096,65536,1048576,4194304,16777216,67108864,268435456"


def rank_main(sizes: list[int], repeats: int) -> None:
    """Measure in this rank; rank 0 prints the table."""
    import collective_core.torch_backend  # noqa: F401  # registers ccore
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = {"ccore": dist.new_group(backend="ccore"), "gloo": dist.group.WORLD}
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    if rank == 0:
        print(
            f"{torch.cuda.get_device_name(device)}, {size} ranks, torch {torch.__version__}, fp32 sum, median us"
        )
        print(f"{'bytes':>12} {'gloo':>10} {'ccore':>10} {'gloo / ccore':>13} {'GB/s':>7}")
    for size_bytes in sizes:
        times: dict[str, list[float]] = {name: [] for name in groups}
        for repeat in range(repeats + 2):
            for name, group in groups.items():
                tensor = torch.full((size_bytes // 4,), float(rank + 1), device=device)
                torch.cuda.synchronize()
                dist.barrier()
                begin = time.perf_counter()
                dist.all_reduce(tensor, group=group)
                torch.cuda.synchronize()
                took = torch.tensor([time.perf_counter() - begin])
                dist.all_reduce(took, dist.ReduceOp.MAX)
                expected = size * (size + 1) / 2
                if not bool((tensor == expected).all()):
                    raise SystemExit(f"{name}: wrong sum at {size_bytes} bytes")
                if repeat >= 2:
                    times[name].append(took.item())
        if rank == 0:
            gloo, ours = (1e6 * statistics.median(times[name]) for name in ("gloo", "ccore"))
            rate = size_bytes / ours / 1e3 * 2 * (size - 1) / size
            print(
                f"{size_bytes:>12} {gloo:>10.0f} {ours:>10.0f} {gloo / ours:>13.2f} {rate:>7.2f}", flush=True
            )
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--repeats", type=int, default=11)
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
    }
    ranks = [
        subprocess.Popen((sys.executable, __file__, *sys.argv[1:]), env={**shared, "RANK": str(rank)})
        for rank in range(options.ranks)
    ]
    codes = [rank.wait() for rank in ranks]
    if any(codes):
        raise SystemExit(f"ranks ended with {codes}")


if __name__ == "__main__":
    main()
