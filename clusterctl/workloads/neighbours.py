"""How fast every rank is with its neighbours: the rank of the same place on the node before its own, and after it.

In a collective all ranks wait for the slowest, so that their times are alike and none of them tells which it was.
Pairs do: a slow node has two slow neighbours, and each of these is fast with its other one. Ranks of the same place
of their nodes are on one rail, so that every NIC takes part, all at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from clusterctl.workloads import entry, ranks

LEAST_SWEEP_BYTES = 64 << 10
"""A sweep that ends before this is about latency, and is not followed by it."""
_CPU_BYTES = 4 << 20
_GPU_BYTES = 64 << 20
_WARMUP = 3
_REPEATS = 3
# In a row, so that what both wait for each other at the begin counts little; a GPU is through with one in no time.
_CPU_ITERS, _GPU_ITERS = 2, 20


def rings(hosts: Sequence[str]) -> list[list[int]]:
    """Return the rings of ranks that are measured; ``hosts``: the node of each rank.

    One per place on a node, through all nodes that have it; of a single node the ring of its ranks. Ranks without a
    neighbour are in none.
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
    return [ring for ring in found if len(ring) > 1]


def rounds(ring: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return the pairs of neighbours in a ring, in rounds in which nobody is in two pairs."""
    size = len(ring)
    if size == 2:
        return [[(ring[0], ring[1])]]
    pairs = [(ring[index], ring[(index + 1) % size]) for index in range(size)]
    # The last pair of an odd ring shares a member with the first of both other rounds.
    last = [pairs.pop()] if size % 2 else []
    return [found for found in (pairs[::2], pairs[1::2], last) if found]


def tells_something(hosts: Sequence[str], device: torch.device) -> bool:
    """Whether there is a link that another can be held against; cores of one CPU are no devices with links."""
    return len(hosts) > 2 and (device.type == "cuda" or len(set(hosts)) > 1)


def measure(hosts: Sequence[str], device: torch.device, size_bytes: int) -> dict[int, float]:
    """Return this rank's GB/s in each direction with each of its neighbours; every rank calls it."""
    rank = dist.get_rank()
    send = torch.zeros(size_bytes, dtype=torch.uint8, device=device)
    receive = torch.empty_like(send)
    planned = [rounds(ring) for ring in rings(hosts)]
    found = {}
    for turn in range(max(map(len, planned), default=0)):
        dist.barrier()
        pairs = [pair for of_ring in planned if turn < len(of_ring) for pair in of_ring[turn]]
        peer = next((sum(pair) - rank for pair in pairs if rank in pair), None)
        if peer is not None:
            iters = _GPU_ITERS if send.is_cuda else _CPU_ITERS
            _exchange(send, receive, peer, _WARMUP)
            times = [_exchange(send, receive, peer, iters) / iters for _ in range(_REPEATS)]
            # What else runs on a node makes a time longer and never shorter; a slow link is slow each time.
            found[peer] = size_bytes / min(times) / 1e9
    return found


def _exchange(send: torch.Tensor, receive: torch.Tensor, peer: int, iters: int) -> float:
    """Send to a peer what it sends here, ``iters`` times in a row, and return the seconds that it took."""
    if send.is_cuda:
        torch.cuda.synchronize(send.device)
    started = time.perf_counter()
    for _ in range(iters):
        both = [dist.P2POp(dist.isend, send, peer), dist.P2POp(dist.irecv, receive, peer)]
        for work in dist.batch_isend_irecv(both):
            work.wait()
    if send.is_cuda:
        torch.cuda.synchronize(send.device)
    return time.perf_counter() - started


def lines(hosts: Sequence[str], device: torch.device) -> list[str]:
    """Measure, and return what rank 0 prints: a line per rank; nothing where nothing could be learnt from it."""
    if not tells_something(hosts, device):
        return []
    size_bytes = _GPU_BYTES if device.type == "cuda" else _CPU_BYTES
    gathered: list[Any] = [None] * len(hosts)
    dist.all_gather_object(gathered, measure(hosts, device, size_bytes))
    said = [f"# Neighbours: {size_bytes} bytes each way at once, best of {_REPEATS}"]
    for rank, found in enumerate(gathered):
        if found:
            speeds = ", ".join(f"{gbps:.3f} GB/s with {peer}" for peer, gbps in found.items())
            said.append(f"# Neighbours of rank {rank} on {hosts[rank]}: {speeds}")
    return said


def _measure(place: ranks.Place, arguments: argparse.Namespace) -> int:
    device = ranks.choose_device(place, "auto" if arguments.backend == "nccl" else "cpu")
    ranks.join(place, arguments.backend, device, arguments.timeout)
    hosts: list[Any] = [None] * place.world_size
    dist.all_gather_object(hosts, place.host)
    said = lines(hosts, device)
    if place.rank == 0:
        print("\n".join(said), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Measure and nothing else, beside a program that cannot; exit status 4 is a rank without a place."""
    parser = argparse.ArgumentParser(prog="neighbours")
    parser.add_argument("--backend", choices=("nccl", "gloo", "ccore"), required=True)
    parser.add_argument("-T", "--timeout", type=float, default=120.0, help="seconds")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else argv)
    return entry.enter(lambda place: _measure(place, arguments), arguments.timeout)
