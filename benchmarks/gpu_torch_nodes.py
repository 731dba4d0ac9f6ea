"""torch's all_reduce of CUDA tensors on emulated nodes of one machine: on the GPUs inside nodes, or on the CPUs.

Ranks share the GPUs of the machine; CCORE_INTRA_SIZE cuts them into nodes, between which the data goes over TCP on the
loopback interface. The group "cpus" has CCORE_CUDA_PATH=staged; the group "gpus" has auto, and uses the GPUs at every
size. Calls are interleaved, every sum is checked, and a time is the median of the slowest rank, from the call to the
end of the device's work. The last line compares the smallest size from which the GPUs are faster with the one that
`cc_limits.least_device_2d_bytes` has.

    python benchmarks/gpu_torch_nodes.py [--ranks 4] [--per-node 2] [--sizes 65536,...] [--repeats 11]
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable

from collective_core.enums import CudaPath
from collective_core.observation import Limits

SIZES = "65536,262144,1048576,2097152,4194304,8388608,16777216,67108864,268435456"
_WARM_UP = 2
_GPUS = "on the GPUs, inside nodes by "


def rank_main(sizes: list[int], per_node: int, repeats: int) -> None:
    """Measure in this rank; rank 0 prints the table."""
    import collective_core.torch
    import collective_core.torch_backend  # registers ccore
    import torch
    import torch.distributed as dist

    chosen: dict[CudaPath, int] = {}

    def allow(limits: Limits, size_bytes: int, paths: Iterable[CudaPath] = ()) -> bool:
        """Let the GPUs take every size."""
        del paths
        chosen.update(zip(CudaPath, limits.least_device_2d_bytes, strict=True))
        return size_bytes <= limits.most_2d_bytes

    setattr(Limits, Limits.allow_device_2d.__name__, allow)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", rank % per_node % torch.cuda.device_count())
    torch.cuda.set_device(device)
    groups = {}
    for name, path in (("cpus", "staged"), ("gpus", "auto")):
        # A group meets for its GPUs at the first tensor that they could take.
        os.environ["CCORE_CUDA_PATH"] = path
        groups[name] = dist.new_group(backend="ccore")
        dist.all_reduce(torch.ones(1 << 20, device=device), group=groups[name])
        torch.cuda.synchronize()
    way = collective_core.torch.describe(groups["gpus"])["between_nodes"]
    if not way.startswith(_GPUS):
        raise SystemExit(f"the GPUs are not used: {way}")
    if rank == 0:
        print(
            f"{torch.cuda.get_device_name(device)} x{torch.cuda.device_count()}, {size} ranks, {per_node} per node, "
            f"torch {torch.__version__}, fp32 sum, median us; {way}"
        )
        print(f"{'bytes':>12}{'cpus':>10}{'gpus':>10}{'gain':>8}")
    gains: dict[int, float] = {}
    for size_bytes in sizes:
        times: dict[str, list[float]] = {name: [] for name in groups}
        for repeat in range(repeats + _WARM_UP):
            for name, group in groups.items():
                tensor = torch.full((size_bytes // 4,), float(rank + 1), device=device)
                torch.cuda.synchronize()
                dist.barrier()
                begin = time.perf_counter()
                dist.all_reduce(tensor, group=group)
                torch.cuda.synchronize()
                took = torch.tensor([time.perf_counter() - begin])
                dist.all_reduce(took, dist.ReduceOp.MAX)
                if not bool((tensor == size * (size + 1) / 2).all()):
                    raise SystemExit(f"{name}: wrong sum at {size_bytes} bytes")
                if repeat >= _WARM_UP:
                    times[name].append(took.item())
        medians = {name: 1e6 * statistics.median(some) for name, some in times.items()}
        gains[size_bytes] = medians["cpus"] / medians["gpus"]
        if rank == 0:
            print(
                f"{size_bytes:>12}{medians['cpus']:>10.0f}{medians['gpus']:>10.0f}{gains[size_bytes]:>7.2f}x",
                flush=True,
            )
    if rank == 0:
        slower = [size_bytes for size_bytes, gain in gains.items() if gain < 1]
        faster = [size_bytes for size_bytes in gains if not slower or size_bytes > max(slower)]
        for name in way.removeprefix(_GPUS).split(" and "):
            print(
                f"{name}: faster from {min(faster, default=None)} bytes on; "
                f"the library takes them from {chosen.get(CudaPath[name.upper()])} on"
            )
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--per-node", type=int, default=2)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--repeats", type=int, default=11)
    options = parser.parse_args()
    if "RANK" in os.environ:
        rank_main([int(size) for size in options.sizes.split(",")], options.per_node, options.repeats)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(options.ranks),
        "CCORE_INTRA_SIZE": str(options.per_node),
        "CCORE_HIERARCHICAL_THRESHOLD": "1",
    }
    ranks = [
        subprocess.Popen((sys.executable, *sys.argv), env={**shared, "RANK": str(rank)})
        for rank in range(options.ranks)
    ]
    raise SystemExit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    main()
