"""Top-k all_reduce against dense all_reduce between two network namespaces that are joined by a 1 Gbit/s veth pair.

Each namespace is a node: of one rank, where dense is the flat ring, and of two ranks, where dense is the hierarchical
(2D) algorithm. 64 MiB of normal fp32 values per rank, ratio 0.01; the two are run in turn in the same processes, and
medians are of the slowest rank. The error feedback's residual is in use. Goal: >= 10 times less time than dense.

    python benchmarks/core_topk.py [--iterations 5] [--ratio 0.01] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import shaped_networks
from shaped_networks import Networks
from shaped_ranks import run_ranks

_CHILD_DEADLINE_S = 180
_RATE_MBIT = 1000.0
_GOAL = 10.0


def rank(size_bytes: int, iterations: int, ratio: float) -> None:
    """Be one rank: measure and print seconds per operation as JSON."""
    import numpy
    from collective_core.communicator import Communicator
    from collective_core.topk import Method, Residual, Topk

    with Communicator.from_environment(timeout_s=120) as comm:
        data = numpy.random.default_rng(comm.rank).standard_normal(size_bytes // 4, dtype="f4")
        result = numpy.empty_like(data)
        ways = {
            "exact f32": Topk(ratio),
            "exact f16": Topk(ratio, half_values=True),
            "mstopk f16": Topk(ratio, half_values=True, method=Method.MSTOPK),
        }
        residuals = {name: Residual() for name in ways}
        seconds: dict[str, list[float]] = {name: [] for name in ("dense", *ways)}
        for _ in range(iterations + 1):
            for name, kept in seconds.items():
                comm.barrier()
                began = time.perf_counter()
                if name == "dense":
                    comm.all_reduce(data, result)
                else:
                    comm.topk_all_reduce(data, result, residuals[name], ways[name])
                kept.append(time.perf_counter() - began)
        print(json.dumps({name: statistics.median(kept[1:]) for name, kept in seconds.items()}))


def measure(
    networks: Networks, per_node: int, size_bytes: int, iterations: int, ratio: float
) -> dict[str, float]:
    """Run all ranks; return seconds per operation, of the slowest rank."""
    sides = [number // per_node for number in range(2 * per_node)]
    algorithm = "2d" if per_node > 1 else "ring"
    outputs = run_ranks(
        networks,
        (__file__, "--rank", str(size_bytes), str(iterations), "--ratio", str(ratio)),
        sides,
        lambda number: {"CCORE_NODE_ID": f"node{sides[number]}", "CCORE_ALGO": f"all_reduce:{algorithm}"},
        _CHILD_DEADLINE_S,
    )
    return {name: max(one[name] for one in outputs) for name in outputs[0]}


def main() -> int:
    """Print the table; return 1 when the goal is missed by exact selection with the default values."""
    parser = argparse.ArgumentParser(description="top-k all_reduce against dense on a 1 Gbit/s line")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--ratio", type=float, default=0.01)
    parser.add_argument(
        "--quick", action="store_true", help="8 MiB once: shows that it works, proves nothing"
    )
    parser.add_argument("--rank", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        rank(*given.rank, given.ratio)
        return 0
    reason = shaped_networks.missing()
    if reason:
        raise SystemExit(f"cannot make shaped networks here: {reason}")
    size_bytes, iterations = (8 << 20, 1) if given.quick else (64 << 20, given.iterations)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"top-k all_reduce, {size_bytes >> 20} MiB fp32, ratio {given.ratio:g}, 2 nodes, 1 Gbit/s between them"
    )
    print(f"{os.cpu_count()} cores, load {load}, {platform.platform()}")
    print(f"{'ranks':>8} {'way':12} {'ms':>10} {'dense / it':>11} {'goal':>6}")
    missed = False
    for per_node in (1, 2):
        with shaped_networks.shaped_networks([_RATE_MBIT]) as networks:
            measured = measure(networks, per_node, size_bytes, iterations, given.ratio)
        for name, seconds in measured.items():
            gain = measured["dense"] / seconds
            goal = f"{_GOAL:g}" if name.startswith("exact") else ""
            missed = missed or (bool(goal) and gain < _GOAL)
            print(f"{f'2 x {per_node}':>8} {name:12} {1000 * seconds:10.1f} {gain:11.1f} {goal:>6}")
    return int(missed and not given.quick)


if __name__ == "__main__":
    raise SystemExit(main())
