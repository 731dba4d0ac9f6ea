"""Nodes of two ranks over a shaped network: all_reduce in two dimensions against the flat ring.

The nodes are network namespaces joined by veth pairs that tbf shapes. A machine with fewer cores than ranks needs a
lower --mbit, so that the network is what they wait for. Printed are the median time of the slowest rank and what the
interface of a node sent per operation, by its own counter, as a share of the data; beside the goals: with two nodes 1.3
times as fast, with more at most 10 % slower, and no more than 2(m-1)/m of the data + 5 %. Each rank compares each
element with the exact sum.

    python benchmarks/core_2d.py [--nodes 2] [--mbit 1000] [--between] [--iterations 5] [--mebibytes 16] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import shaped_networks
from shaped_networks import Networks
from shaped_ranks import run_ranks

_CHILD_DEADLINE_S = 300
_RANKS_OF_NODE = 2
_BETWEEN = ("ring", "ps", "tree", "butterfly")
_GOAL_OF_TWO_NODES = 1.3
_GOAL = 1 / 1.1


@dataclass(frozen=True)
class Result:
    """Of one algorithm."""

    seconds: float
    sent_share: float


def rank(mebibytes: int, iterations: int) -> None:
    """Be one rank: measure and print seconds per operation as JSON."""
    import numpy
    from collective_core.communicator import Communicator

    with Communicator.from_environment(timeout_s=60) as comm:
        data = numpy.full(mebibytes << 18, comm.rank + 1, dtype="f4")
        result = numpy.empty_like(data)
        seconds = []
        for _ in range(iterations):
            comm.barrier()
            began = time.perf_counter()
            comm.all_reduce(data, result)
            seconds.append(time.perf_counter() - began)
        if not (result == comm.size * (comm.size + 1) / 2).all():
            raise SystemExit("wrong result")
        print(json.dumps(statistics.median(seconds)))


def _settings(algorithm: str) -> dict[str, str]:
    name, _, between = algorithm.partition("/")
    return {"CCORE_ALGO": f"all_reduce:{name}"} | ({"CCORE_2D_BETWEEN": between} if between else {})


def measure(networks: Networks, algorithm: str, mebibytes: int, iterations: int) -> Result:
    """Run the ranks with one algorithm."""
    before = networks.sent_bytes(0, 0)
    sides = [me // _RANKS_OF_NODE for me in range(_RANKS_OF_NODE * len(networks.names))]
    seconds = run_ranks(
        networks,
        (__file__, "--rank", str(mebibytes), str(iterations)),
        sides,
        lambda me: {"CCORE_NODE_ID": f"node{sides[me]}", **_settings(algorithm)},
        _CHILD_DEADLINE_S,
    )
    sent = networks.sent_bytes(0, 0) - before
    return Result(max(seconds), sent / iterations / (mebibytes << 20))


def main() -> int:
    """Print the table; return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(
        description="hierarchical all_reduce against the flat ring, nodes of two ranks"
    )
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--mbit", type=int, default=1000, help="rate of each node")
    parser.add_argument("--between", action="store_true", help="also force each algorithm between the nodes")
    parser.add_argument("--iterations", type=int, default=5, help="of each of the rounds")
    parser.add_argument("--rounds", type=int, default=3, help="the algorithms take turns")
    parser.add_argument("--mebibytes", type=int, default=16)
    parser.add_argument(
        "--quick", action="store_true", help="2 MiB twice: shows that it works, proves nothing"
    )
    parser.add_argument("--rank", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        rank(*given.rank)
        return 0
    reason = shaped_networks.missing()
    if reason:
        raise SystemExit(f"cannot make shaped networks here: {reason}")
    mebibytes, iterations, rounds = (
        (2, 2, 1) if given.quick else (given.mebibytes, given.iterations, given.rounds)
    )
    goal_speedup = _GOAL_OF_TWO_NODES if given.nodes == 2 else _GOAL
    goal_share = 2 * (given.nodes - 1) / given.nodes * 1.05
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"all_reduce, {given.nodes} nodes of {_RANKS_OF_NODE} ranks, {given.mbit} Mbit/s, {mebibytes} MiB fp32"
    )
    print(f"{os.cpu_count()} cores, load {load}, {platform.platform()}")
    forced = [f"2d/{between}" for between in _BETWEEN] if given.between else []
    measured: dict[str, list[Result]] = {name: [] for name in ("ring", "2d", *forced)}
    with shaped_networks.shaped_networks([given.mbit], nodes=given.nodes) as networks:
        for _ in range(rounds):
            for algorithm, results in measured.items():
                results.append(measure(networks, algorithm, mebibytes, iterations))
    print(f"{'algorithm':10} {'ms':>9} {'sent by a node / data':>22}")
    median = {}
    for algorithm, results in measured.items():
        median[algorithm] = Result(
            statistics.median(one.seconds for one in results), max(one.sent_share for one in results)
        )
        print(f"{algorithm:10} {1e3 * median[algorithm].seconds:9.1f} {median[algorithm].sent_share:22.3f}")
    speedup = median["ring"].seconds / median["2d"].seconds
    share = median["2d"].sent_share
    met = {
        f"2d is {speedup:.2f} times as fast as the flat ring: goal >= {goal_speedup:.2f}": speedup
        >= goal_speedup,
        f"a node sends {share:.3f} of the data: goal <= {goal_share:.3f}": share <= goal_share,
    }
    for text, good in met.items():
        print(f"{'pass' if good else 'MISS'}: {text}")
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
