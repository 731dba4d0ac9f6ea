"""collective_core over TCP between two network namespaces that are joined by shaped veth pairs.

For each network and number of streams: two ranks, 64 MiB fp32, all_reduce (sum) and both ranks sending to each other
at once, medians. Printed is the share of the line: payload bytes per direction over time, against the sum of the tbf
rates, which count whole frames (at an MTU of 1500, 95.6 % of a line is payload).

    python benchmarks/core_tcp_shaped.py [--iterations 5] [--mtu 1500] [--quick]
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

_CHILD_DEADLINE_S = 120


@dataclass(frozen=True)
class Case:
    """A network, and the share of it that has to be reached with the default number of streams."""

    rates_gbit: tuple[float, ...]
    goal: float

    @property
    def name(self) -> str:
        """As in the table."""
        return " + ".join(f"{rate:g}" for rate in self.rates_gbit) + " Gbit/s"


CASES = (Case((1,), 0.92), Case((5,), 0.92), Case((10,), 0.92), Case((1, 4), 0.85))


def rank(size_bytes: int, iterations: int) -> None:
    """Be one rank: measure and print seconds per operation as JSON."""
    import numpy
    from collective_core.communicator import Communicator

    with Communicator.from_environment(timeout_s=60) as comm:
        me = comm.rank
        data = numpy.full(size_bytes // 4, me + 1, dtype="f4")
        result = numpy.empty_like(data)

        def all_reduce() -> None:
            comm.all_reduce(data, result)

        def exchange() -> None:
            with comm.group():
                comm.send(data, 1 - me)
                comm.recv(result, 1 - me)

        measured = {}
        for operation, expected in ((all_reduce, 3), (exchange, 2 - me)):
            seconds = []
            for _ in range(iterations + 1):
                result.fill(0)
                comm.barrier()
                began = time.perf_counter()
                operation()
                seconds.append(time.perf_counter() - began)
            if not (result == expected).all():
                raise SystemExit(f"{operation.__name__}: wrong result")
            measured[operation.__name__] = statistics.median(seconds[1:])
        print(json.dumps(measured))


def measure(networks: Networks, streams: int, size_bytes: int, iterations: int) -> dict[str, float]:
    """Run the two ranks; return seconds per operation, of the slower rank."""
    outputs = run_ranks(
        networks,
        (__file__, "--rank", str(size_bytes), str(iterations)),
        (0, 1),
        lambda _: {"CCORE_TRANSPORT": "tcp", "CCORE_TCP_STREAMS": str(streams)},
        _CHILD_DEADLINE_S,
    )
    return {operation: max(one[operation] for one in outputs) for operation in outputs[0]}


def main() -> int:
    """Print the table; return 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="the share of a shaped line that collective_core's TCP uses")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--streams", type=int, nargs="+", default=[0, 1, 2, 4], help="0: the default")
    parser.add_argument(
        "--quick", action="store_true", help="8 MiB once: shows that it works, proves nothing"
    )
    parser.add_argument("--rank", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        rank(*given.rank)
        return 0
    reason = shaped_networks.missing()
    if reason:
        raise SystemExit(f"cannot make shaped networks here: {reason}")
    size_bytes, iterations = (8 << 20, 1) if given.quick else (64 << 20, given.iterations)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"collective_core over shaped veth pairs, 2 ranks, {size_bytes >> 20} MiB fp32, MTU {given.mtu}")
    print(f"{os.cpu_count()} cores, load {load}, {platform.platform()}")
    print(
        f"{'network':16} {'streams':>8} {'all_reduce ms':>14} {'share':>7} {'exchange ms':>12} {'share':>7}"
    )
    missed = 0
    for case in CASES:
        with shaped_networks.shaped_networks(
            [1000 * rate for rate in case.rates_gbit], given.mtu
        ) as networks:
            for streams in given.streams:
                if 0 < streams < len(case.rates_gbit):
                    continue
                seconds = measure(networks, streams, size_bytes, iterations)
                line_bytes_per_s = sum(case.rates_gbit) * 1e9 / 8
                # Both operations move as many bytes as the buffer has, each way.
                share = {what: size_bytes / took / line_bytes_per_s for what, took in seconds.items()}
                print(
                    f"{case.name:16} {streams or 'default':>8} {1e3 * seconds['all_reduce']:14.1f}"
                    f" {share['all_reduce']:6.1%} {1e3 * seconds['exchange']:12.1f} {share['exchange']:6.1%}",
                    flush=True,
                )
                if streams == 0:
                    met = min(share.values()) >= case.goal
                    missed += not met
                    print(f"{'pass' if met else 'MISS'}: {case.name}: goal >= {case.goal:.0%}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
