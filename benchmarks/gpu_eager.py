"""What a call of torch.distributed costs outside of CUDA graphs: nccl, ccore, nccl+ccore and gloo, interleaved.

Each repeat starts the ranks twice: with the groups of nccl, ccore and gloo, and with those of NCCL behind
libcollective_core_nccl.so and ccore. The groups live in the same ranks, and their loops are interleaved. A time is that
of the slowest rank, from before the first call to the end of the device's work, divided by the calls:

- "one": one call that the host waits for, after a barrier of gloo, which ranks leave 10 to 30 us apart;
- "queue": 50 calls with async_op=False, then one synchronization;
- "async": 50 calls with async_op=True, each with wait() at once, then one synchronization;
- "overlap": 50 calls with async_op=True, then all their wait(), then one synchronization.

The tables have medians and, in brackets, the fastest and the slowest repeat, in us. A sum of each group is checked per
size and repeat. The ranks share one GPU under an MPS server of this script, or have a GPU each, if there are enough.
NCCL before 2.30 refuses ranks that share a GPU unless each claims a host of its own, so its data then takes sockets.
NCCL_P2P_DISABLE=1 in the environment makes NCCL's row that of GPUs without peer access.

    python benchmarks/gpu_eager.py [--ranks 2] [--sizes 1024,65536,1048576] [--repeats 5] [--no-mps] [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import gpu_ranks  # noqa: E402

SIZES = "1024,65536,1048576"
CALLS, CALLS_OF_GLOO = 50, 10
ROUNDS = 3  # of the loops of a launch; the first warms up
SINGLES = 15
LIMIT_S = 150
LAUNCHES = (("nccl", "ccore", "gloo"), ("nccl+ccore", "ccore"))
COLUMNS = ("nccl", "ccore", "nccl+ccore", "gloo")
MODES = ("one", "queue", "async", "overlap")
# By mode: the size and the most us of ccore, which must also be below NCCL.
GOALS = {"queue": (65536, 40.0), "async": (65536, 45.0)}


def modes_of(dist: Any, tensor: Any, group: Any, calls: int) -> dict[str, tuple[int, Callable[[], None]]]:
    """Return the loops by mode, with the calls that each makes."""

    def one() -> None:
        dist.all_reduce(tensor, group=group)

    def queue() -> None:
        for _ in range(calls):
            dist.all_reduce(tensor, group=group)

    def asynchronous() -> None:
        for _ in range(calls):
            dist.all_reduce(tensor, group=group, async_op=True).wait()

    def overlap() -> None:
        works = [dist.all_reduce(tensor, group=group, async_op=True) for _ in range(calls)]
        for work in works:
            work.wait()

    return {
        "one": (1, one),
        "queue": (calls, queue),
        "async": (calls, asynchronous),
        "overlap": (calls, overlap),
    }


def rank_main(names: list[str], sizes: list[int]) -> None:
    """Measure in this rank; rank 0 prints JSON: by mode, size and group the us of each loop."""
    import collective_core.torch
    import collective_core.torch_backend  # registers ccore
    import torch
    import torch.distributed as dist

    rank, size, device = gpu_ranks.device_of_rank(uses_nccl=True)
    dist.init_process_group("gloo")
    groups = {
        name: dist.group.WORLD if name == "gloo" else dist.new_group(backend=name.partition("+")[0])
        for name in names
    }
    found: dict[str, dict[int, dict[str, list[float]]]] = {
        mode: {size_bytes: {name: [] for name in names} for size_bytes in sizes} for mode in MODES
    }

    def timed(loop: Callable[[], None]) -> float:
        torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        loop()
        torch.cuda.synchronize()
        took = torch.tensor([time.perf_counter() - begin])
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return 1e6 * float(took)

    for size_bytes in sizes:
        for round_ in range(ROUNDS):
            for name, group in groups.items():
                tensor = torch.full((size_bytes // 4,), rank + 1.0, device=device)
                dist.all_reduce(tensor, group=group)
                if not bool((tensor == size * (size + 1) / 2).all()):
                    raise SystemExit(f"{name}: wrong sum at {size_bytes} bytes")
                tensor.zero_()
                calls = CALLS_OF_GLOO if name == "gloo" else CALLS
                for mode, (made, loop) in modes_of(dist, tensor, group, calls).items():
                    times = [timed(loop) / made for _ in range(SINGLES if mode == "one" else 1)]
                    if round_ > 0:
                        found[mode][size_bytes][name].append(statistics.median(times))
    if rank == 0:
        path = collective_core.torch.describe(groups["ccore"])["cuda_path"]
        described = {**gpu_ranks.machine(device, size), "path": path}
        print(json.dumps({"machine": described, "us": found}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def launch(ranks: int, names: tuple[str, ...], sizes: str, variables: dict[str, str]) -> dict[str, Any]:
    """Return what rank 0 printed; SystemExit if a rank failed."""
    words = ("--rank-of", ",".join(names), "--sizes", sizes)
    before_nccl = "nccl+ccore" in names
    return gpu_ranks.answer_of(words, ranks, variables, before_nccl=before_nccl, limit_s=LIMIT_S)


def print_tables(launches: list[dict[str, Any]], sizes: list[int]) -> None:
    """Print a table for each mode, then each goal beside what was measured."""
    medians: dict[tuple[str, int, str], float] = {}
    for mode in MODES:
        print(
            f"\n{mode}, us per call\n{'bytes':>9}"
            + "".join(f"{name:>26}" for name in COLUMNS)
            + "  nccl/ccore"
        )
        for size_bytes in sizes:
            row = f"{size_bytes:>9}"
            for name in COLUMNS:
                times = [us for one in launches for us in one["us"][mode][str(size_bytes)].get(name, ())]
                medians[mode, size_bytes, name] = statistics.median(times)
                row += f"{f'{statistics.median(times):.1f} [{min(times):.1f}, {max(times):.1f}]':>26}"
            ratio = medians[mode, size_bytes, "nccl"] / medians[mode, size_bytes, "ccore"]
            print(f"{row}{ratio:>12.2f}")
    for mode, (size_bytes, most) in GOALS.items():
        if size_bytes in sizes:
            ours, nccls = (medians[mode, size_bytes, name] for name in ("ccore", "nccl"))
            met = "met " if ours <= most and ours < nccls else "MISS"
            print(
                f"{met} {mode:>6} {size_bytes} bytes: {ours:.1f} us, nccl {nccls:.1f}; goal <= {most:g}, < nccl"
            )


def main() -> None:
    """Start the ranks, or be one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-mps", action="store_true", help="let ranks that share a GPU take turns")
    parser.add_argument("--quick", action="store_true", help="one size, two repeats")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = "65536" if options.quick else options.sizes
    numbers = [int(size) for size in sizes.split(",")]
    if options.rank_of:
        rank_main(options.rank_of.split(","), numbers)
        return
    from mps_server import NOT_STARTED, mps_server

    with contextlib.nullcontext({}) if options.no_mps else mps_server() as variables:
        if variables is None:
            raise SystemExit(NOT_STARTED)
        launches = [
            launch(options.ranks, names, sizes, variables)
            for _ in range(2 if options.quick else options.repeats)
            for names in LAUNCHES
        ]
    machine = launches[0]["machine"]
    print(
        f"{machine['gpus']} x {machine['gpu']}, {options.ranks} ranks{'' if options.no_mps else ', MPS'}, torch "
        f"{machine['torch']}, NCCL {machine['nccl']}, ccore's path {machine['path']}, all_reduce of fp32"
    )
    print_tables(launches, numbers)


if __name__ == "__main__":
    main()
