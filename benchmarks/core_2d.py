"""Two nodes of two ranks over a shaped link: all_reduce in two dimensions against the flat ring.

The nodes are network namespaces joined by a veth pair that tbf shapes to 1 Gbit/s. Printed are the median time of the
slowest rank and what the interface of a node sent per operation, by its own counter, as a share of the data; beside
the goals: 1.3 times as fast, and no more than 2(m-1)/m of the data + 5 %.

    python benchmarks/core_2d.py [--iterations 5] [--mebibytes 16] [--quick]
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
_NODES = 2
_RANKS = 4
_RATE_MBIT = 1000
_GOAL_SPEEDUP = 1.3
_GOAL_SHARE = 2 * (_NODES - 1) / _NODES * 1.05


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
        if not (result == _RANKS * (_RANKS + 1) / 2).all():
            raise SystemExit("wrong result")
        print(json.dumps(statistics.median(seconds)))


def measure(networks: Networks, algorithm: str, mebibytes: int, iterations: int) -> Result:
    """Run the ranks with one algorithm."""
    before = networks.sent_bytes(0, 0)
    sides = [me // (_RANKS // _NODES) for me in range(_RANKS)]
    seconds = run_ranks(
        networks,
        (__file__, "--rank", str(mebibytes), str(iterations)),
        sides,
        lambda me: {"CCORE_NODE_ID": f"node{sides[me]}", "CCORE_ALGO": f"all_reduce:{algorithm}"},
        _CHILD_DEADLINE_S,
    )
    sent = networks.sent_bytes(0, 0) - before
    return Result(max(seconds), sent / iterations / (mebibytes << 20))


def main() -> int:
    """Print the table; return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(
        description="hierarchical all_reduce against the flat ring, two nodes of two"
    )
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
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"all_reduce, {_NODES} nodes of {_RANKS // _NODES} ranks, {_RATE_MBIT} Mbit/s, {mebibytes} MiB fp32"
    )
    print(f"{os.cpu_count()} cores, load {load}, {platform.platform()}")
    measured: dict[str, list[Result]] = {"ring": [], "2d": []}
    with shaped_networks.shaped_networks([_RATE_MBIT]) as networks:
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
        f"2d is {speedup:.2f} times as fast as the flat ring: goal >= {_GOAL_SPEEDUP}": speedup
        >= _GOAL_SPEEDUP,
        f"a node sends {share:.3f} of the data: goal <= {_GOAL_SHARE:.3f}": share <= _GOAL_SHARE,
    }
    for text, good in met.items():
        print(f"{'pass' if good else 'MISS'}: {text}")
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
