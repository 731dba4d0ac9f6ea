"""all_reduce of CUDA tensors through torch.distributed: ccore against gloo, ranks that share one GPU.

All groups live in the same ranks, and their calls are interleaved: gloo, and ccore once per way of
CCORE_CUDA_PATH. Each time is the median over the repeats of the slowest rank, from the call to the end of the device's
work. Every result is checked. Below the table: the goals for ranks without MPS, and whether they were met.

    python benchmarks/gpu_torch_vs_gloo.py [--ranks 2] [--ways auto,host,staged] [--sizes 65536,...] [--repeats 11]
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
KIB, MIB = 1024, 1024 * 1024

# By number of ranks and way: size, the limit in us (None: none), the least ratio to gloo.
Goal = tuple[int, float | None, float | None]
GOALS: dict[tuple[int, str], list[Goal]] = {
    (2, "auto"): [
        (64 * KIB, 200, None), (MIB, 200, None), (64 * MIB, 450, None), (256 * MIB, 700, 150),
    ],
    (4, "auto"): [(256 * MIB, 1600, None)],
    (2, "host"): [
        (64 * KIB, None, 6), (MIB, None, 2.5), (4 * MIB, None, 6), (16 * MIB, None, 6),
        (64 * MIB, 64 * MIB / 17.5e3, 8), (256 * MIB, None, 8),
    ],
    (2, "staged"): [(16 * MIB, None, 3), (64 * MIB, None, 3), (256 * MIB, None, 3)],
}  # fmt: skip


def rank_main(sizes: list[int], ways: list[str], repeats: int) -> None:
    """Measure in this rank; rank 0 prints the table."""
    import collective_core.torch
    import collective_core.torch_backend  # registers ccore
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    groups = {"gloo": dist.group.WORLD}
    for way in ways:
        # A group chooses its way at its first CUDA tensor.
        os.environ["CCORE_CUDA_PATH"] = way
        groups[way] = dist.new_group(backend="ccore")
        dist.all_reduce(torch.ones(1, device=device), group=groups[way])
        torch.cuda.synchronize()
    if rank == 0:
        print(
            f"{torch.cuda.get_device_name(device)}, {size} ranks, torch {torch.__version__}, fp32 sum, median us"
        )
        for way in ways:
            print(f"{way}: {collective_core.torch.describe(groups[way])['cuda']}")
        print(f"{'bytes':>12} {'gloo':>9}" + "".join(f" {way:>9} {'x gloo':>7} {'GB/s':>6}" for way in ways))
    medians: dict[int, dict[str, float]] = {}
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
        medians[size_bytes] = {name: 1e6 * statistics.median(some) for name, some in times.items()}
        if rank == 0:
            gloo = medians[size_bytes]["gloo"]
            print(
                f"{size_bytes:>12} {gloo:>9.0f}"
                + "".join(
                    f" {medians[size_bytes][way]:>9.0f} {gloo / medians[size_bytes][way]:>7.2f} "
                    f"{size_bytes / medians[size_bytes][way] / 1e3:>6.2f}"
                    for way in ways
                ),
                flush=True,
            )
    if rank == 0:
        print_goals(size, ways, medians)
    dist.barrier()
    dist.destroy_process_group()


def print_goals(ranks: int, ways: list[str], medians: dict[int, dict[str, float]]) -> None:
    """Print each goal beside what was measured."""
    for way in ways:
        for size_bytes, limit_us, least in GOALS.get((ranks, way), []):
            if size_bytes not in medians:
                continue
            took, gloo = medians[size_bytes][way], medians[size_bytes]["gloo"]
            met = (limit_us is None or took <= limit_us) and (least is None or gloo / took >= least)
            wanted = [f"<= {limit_us:.0f} us"] if limit_us is not None else []
            wanted += [f">= {least:g}x gloo"] if least is not None else []
            print(
                f"{'met ' if met else 'MISS'} {way:>6} {size_bytes // KIB:>7} KiB: "
                f"{took:.0f} us, {gloo / took:.1f}x gloo; goal {' and '.join(wanted)}"
            )


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--ways", default="auto,host,staged", help="values of CCORE_CUDA_PATH")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--repeats", type=int, default=11)
    options = parser.parse_args()
    if "RANK" in os.environ:
        sizes = [int(size) for size in options.sizes.split(",")]
        rank_main(sizes, options.ways.split(","), options.repeats)
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
