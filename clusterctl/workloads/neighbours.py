"""Measure the rate of every rank with its neighbours: ranks of the same local rank on up to eight other nodes.

In a collective all ranks wait for the slowest, so their times are equal and do not show which rank was slow. Pairs do:
a slow node is slow with all neighbours, and each of these is fast with another one. Ranks of the same local
rank share a rail, so every NIC is used at the same time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
import torch.distributed as dist

from clusterctl.workloads import entry, places, rank_values, ranks
from clusterctl.workloads.exchange import TorchGather, seconds_each
from clusterctl.workloads.locate import rounds as partners

LEAST_SWEEP_BYTES = 64 << 10
"""Bytes; a sweep of smaller messages measures latency, so the neighbours are not measured after it."""
_CPU_BYTES = 4 << 20
_GPU_BYTES = 64 << 20
_WARMUP = 3
_REPEATS = 3
# Several in a row, so that the initial wait matters little; a GPU completes a single one too fast to time.
_CPU_ITERS, _GPU_ITERS = 2, 20


def groups(hosts: Sequence[str]) -> list[list[int]]:
    """Return the groups of ranks that are measured; ``hosts``: the node of each rank.

    There is one group per local rank, with all nodes that have it; on a single node one group of its ranks. Ranks
    without a neighbour are omitted.
    """
    nodes: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        nodes.setdefault(host, []).append(rank)
    members = list(nodes.values())
    if len(members) == 1:
        found = members
    else:
        places = range(max(len(own) for own in members))
        found = [[own[place] for own in members if place < len(own)] for place in places]
    return [group for group in found if len(group) > 1]


def rounds(group: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return the pairs of ranks of one place, in rounds in which each rank is in one pair at most.

    Each rank meets 8 partners, or all if there are fewer: with two of them, a healthy rank between two slow ones would
    be blamed, and so would one whose pairs happened to be disturbed.
    """
    planned: list[list[tuple[int, int]]] = []
    for pairs in partners.rounds(len(group)):
        found = [(group[low], group[high]) for low, high in pairs]
        if found not in planned:  # a small fleet has fewer partners than rounds
            planned.append(found)
    return planned


def tells_something(hosts: Sequence[str], device: torch.device) -> bool:
    """Tell whether there are links to compare; the cores of one CPU have none."""
    return len(hosts) > 2 and (device.type == "cuda" or len(set(hosts)) > 1)


def peers(hosts: Sequence[str], rank: int) -> list[int | None]:
    """Return the rank that this one meets in each round; None where it pauses."""
    planned = [rounds(group) for group in groups(hosts)]
    found: list[int | None] = []
    for turn in range(max(map(len, planned), default=0)):
        pairs = (pair for group in planned if turn < len(group) for pair in group[turn])
        found.append(next((sum(pair) - rank for pair in pairs if rank in pair), None))
    return found


def measure(hosts: Sequence[str], device: torch.device, size_bytes: int) -> dict[int, float]:
    """Return this rank's GB/s in each direction with each of its neighbours; every rank calls it."""
    send = torch.zeros(size_bytes, dtype=torch.uint8, device=device)
    receive = torch.empty_like(send)
    found: dict[int, float] = {}
    for peer in peers(hosts, dist.get_rank()):
        dist.barrier()
        if peer is not None:
            iters = _GPU_ITERS if send.is_cuda else _CPU_ITERS
            seconds_each([(send, receive)], peer, _WARMUP, device)
            times = [seconds_each([(send, receive)], peer, iters, device) for _ in range(_REPEATS)]
            # Other load on a node only makes times longer, so the best one is used; a slow link is slow each time.
            found[peer] = max(size_bytes / min(times) / 1e9, found.get(peer, 0.0))
    return found


def lines(hosts: Sequence[str], device: torch.device) -> list[str]:
    """Measure, and return the lines that rank 0 prints, one per rank; empty without links to compare."""
    if not tells_something(hosts, device):
        return []
    size_bytes = _GPU_BYTES if device.type == "cuda" else _CPU_BYTES
    own = list(measure(hosts, device, size_bytes).values())
    gathered = rank_values.gather(TorchGather(device), own, _speeds)
    said = [f"# Neighbours: {size_bytes} bytes each way at once, best of {_REPEATS}"]
    for rank, found in enumerate(gathered):
        # A rank sends speeds only: with whom follows from the plan.
        met = list(dict.fromkeys(peer for peer in peers(hosts, rank) if peer is not None))
        if len(met) != len(found):
            raise rank_values.refused(rank, f"expected {len(met)} speeds, not {len(found)}")
        if found:
            speeds = ", ".join(f"{gbps:.3f} GB/s with {peer}" for peer, gbps in zip(met, found, strict=True))
            said.append(f"# Neighbours of rank {rank} on {hosts[rank]}: {speeds}")
    return said


def _speeds(value: object) -> list[float]:
    return [rank_values.number(one) for one in rank_values.array(value)]


def _host(value: object) -> str:
    return rank_values.text(value, rank_values.HOST_CHARACTERS)


def _measure(place: places.Place, arguments: argparse.Namespace) -> int:
    device = ranks.choose_device(place, "auto" if arguments.backend == "nccl" else "cpu")
    ranks.join(place, arguments.backend, device, arguments.timeout)
    hosts = rank_values.gather(TorchGather(device), place.host, _host)
    said = lines(hosts, device)
    if place.rank == 0:
        print("\n".join(said), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Only measure the neighbours, for programs that cannot; return 4 for a rank that cannot join."""
    parser = argparse.ArgumentParser(prog="neighbours")
    parser.add_argument("--backend", choices=("nccl", "gloo", "ccore"), required=True)
    parser.add_argument("-T", "--timeout", type=float, default=120.0, help="seconds")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else argv)
    return entry.enter(lambda place: _measure(place, arguments), arguments.timeout)
