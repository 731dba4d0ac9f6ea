"""Measure what ``clusterctl locate`` judges: every rank alone, then pairs of nodes on all rails at once.

All ranks walk through the same rounds: each gets all rates of a round, so each of them comes to the same next one.
Rank 0 writes every rate as a record, from which clusterctl reaches the verdict again by itself.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from clusterctl.workloads import entry, ranks, records
from clusterctl.workloads.locate import alone, intermittent
from clusterctl.workloads.locate.fleet import RankFleet
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.search import search
from clusterctl.workloads.locate.verdict import LocateVerdict, Values

_CPU_BYTES, _GPU_BYTES = 4 << 20, 64 << 20
_CPU_ITERS, _GPU_ITERS = 1, 20
_REPEATS = 3
_GPU_GEMM, _CPU_GEMM = 8192, 256
_GPU_COPY_BYTES, _CPU_COPY_BYTES, _HOST_BYTES = 1 << 30, 8 << 20, 256 << 20
_GPU_WINDOW_S, _CPU_WINDOW_S = 1.5, 0.5
_INTERFACE = {"gloo": "GLOO_SOCKET_IFNAME", "ccore": "CCORE_SOCKET_IFNAME"}


@dataclass(frozen=True)
class _Rank:
    """What this rank measures with. ``group``: the ranks of its place, None for all ranks."""

    fleet: RankFleet
    rank: int
    device: torch.device
    group: Any
    send: torch.Tensor
    receive: torch.Tensor


def _gathered(value: Any) -> list[Any]:
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found


def _rail_group(fleet: RankFleet, rank: int, backend: str, rails: Sequence[str]) -> Any:
    """Return a process group of the ranks of this place over the place's interface; None without rails."""
    if len(rails) < 2:
        return None
    own = None
    for place in range(fleet.places):
        members = fleet.ranks_of_place(place)
        if rank in members:
            os.environ[_INTERFACE[backend]] = rails[place % len(rails)]
        made = dist.new_group(members)
        own = made if rank in members else own
    return own


def _exchange(here: _Rank, peer: int, iters: int) -> float:
    """Exchange messages with a peer ``iters`` times in a row, both directions at once; return the seconds of one."""
    if here.send.is_cuda:
        torch.cuda.synchronize(here.device)
    started = time.perf_counter()
    for _ in range(iters):
        both = [
            dist.P2POp(dist.isend, here.send, peer, here.group),
            dist.P2POp(dist.irecv, here.receive, peer, here.group),
        ]
        for work in dist.batch_isend_irecv(both):
            work.wait()
    if here.send.is_cuda:
        torch.cuda.synchronize(here.device)
    return (time.perf_counter() - started) / iters


def _round(here: _Rank, planned: Sequence[Pair]) -> Values:
    """Measure the pairs of one round on all their places, and return the rates in GB/s on every rank."""
    dist.barrier()
    peer, key, rate = here.fleet.peer(here.rank, planned), None, 0.0
    if peer is not None:
        key = here.fleet.key(here.rank, peer)
        iters = _GPU_ITERS if here.send.is_cuda else _CPU_ITERS
        _exchange(here, peer, 1 if iters == 1 else 3)
        # Other load only makes a time longer, so the best one counts; a slow link is slow each time.
        rate = here.send.nbytes / min(_exchange(here, peer, iters) for _ in range(_REPEATS)) / 1e9
    values: Values = {}
    for found in _gathered((key, rate)):
        if found[0] is not None:  # both ranks of a pair measured; the slower of their clocks counts
            values[found[0]] = min(found[1], values.get(found[0], found[1]))
    return values


def _rate(work: Callable[[], object], amount: float, seconds: float, device: torch.device) -> float:
    """Return the amount of work per second, over about so many seconds after one call to warm up."""
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started, calls = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        for _ in range(4):
            work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        calls += 4
    return amount * calls / (time.perf_counter() - started)


def _own_work(device: torch.device) -> dict[str, tuple[Callable[[], object], float]]:
    """Return what a rank measures alone: a call and its amount (floating-point operations, or bytes moved)."""
    cuda = device.type == "cuda"
    size, size_bytes = (_GPU_GEMM, _GPU_COPY_BYTES) if cuda else (_CPU_GEMM, _CPU_COPY_BYTES)
    left = torch.randn(size, size, device=device, dtype=torch.bfloat16 if cuda else torch.float32)
    right, product = torch.randn_like(left), torch.empty_like(left)
    source = torch.zeros(size_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    found: dict[str, tuple[Callable[[], object], float]] = {
        "gemm": (lambda: torch.matmul(left, right, out=product), 2.0 * size**3),
        "memory": (lambda: target.copy_(source), 2.0 * size_bytes),
    }
    if cuda:
        host = torch.zeros(_HOST_BYTES, dtype=torch.uint8).pin_memory()
        on_device = torch.empty(_HOST_BYTES, dtype=torch.uint8, device=device)
        found["host-to-device"] = (lambda: on_device.copy_(host, non_blocking=True), float(_HOST_BYTES))
        found["device-to-host"] = (lambda: host.copy_(on_device, non_blocking=True), float(_HOST_BYTES))
    return found


def _alone(device: torch.device, name: str) -> None:
    """Measure every rank alone, all at once, until the judge has seen enough; rank 0 writes the rates as records."""
    devices = _gathered(name)
    if dist.get_rank() == 0:
        records.emit("locate-devices", devices=devices)
    work, seconds = _own_work(device), _GPU_WINDOW_S if device.type == "cuda" else _CPU_WINDOW_S
    judge = alone.judge(devices)
    next(judge)
    while True:
        window: alone.Window = {}
        for measure, (call, amount) in work.items():
            dist.barrier()
            rates = _gathered(_rate(call, amount, seconds, device))
            window.update({(measure, rank): rate for rank, rate in enumerate(rates)})
        if dist.get_rank() == 0:
            by_measure: dict[str, list[float]] = {}
            for (measure, _), rate in window.items():
                by_measure.setdefault(measure, []).append(_short(rate))
            records.emit("locate-window", rates=by_measure)
            window = {(m, r): rate for m, rates in by_measure.items() for r, rate in enumerate(rates)}
        try:
            # Every rank judges what rank 0 wrote, so that all of them stop after the same window.
            judge.send(_from_rank_0(window))
        except StopIteration:
            return


def _short(rate: float) -> float:
    """Return the rate as it is written: six digits are more than a measurement has."""
    return float(f"{rate:.6g}")


def _from_rank_0(value: Any) -> Any:
    shared = [value]
    dist.broadcast_object_list(shared, src=0)
    return shared[0]


def _pairs(here: _Rank, seed: int) -> LocateVerdict:
    """Measure the rounds of the search; rank 0 writes each round as a record."""
    rounds = search(len(here.fleet.ranks), seed)
    values: Any = None
    while True:
        try:
            # None starts the search, which ends at once if there is only one node.
            planned = rounds.send(values)
        except StopIteration as ended:
            verdict: LocateVerdict = ended.value
            return verdict
        measured = {key: _short(rate) for key, rate in _round(here, planned).items()}
        if here.rank == 0:
            records.emit(
                "locate-round", rates=[[*pair, place, rate] for (pair, place), rate in measured.items()]
            )
        values = _from_rank_0(measured)


def _repeated(here: _Rank, seconds: float) -> None:
    """Measure random pairs for so many seconds; rank 0 writes each round as a record."""
    began = time.monotonic()
    for number in itertools.count():
        if not _from_rank_0(time.monotonic() - began < seconds):
            return
        values = _round(here, intermittent.plan(len(here.fleet.ranks), number))
        if here.rank == 0:
            rates = [[*pair, place, _short(rate)] for (pair, place), rate in values.items()]
            records.emit("locate-repeated", rates=rates)


def _work(place: ranks.Place, arguments: argparse.Namespace) -> int:
    device = ranks.choose_device(place, "auto" if arguments.backend != "gloo" else "cpu")
    ranks.use_own_cores(place)
    ranks.join(place, arguments.backend, device, arguments.timeout)
    fleet = RankFleet.of([str(node) for node in arguments.nodes.split(",")])
    rank = dist.get_rank()
    if rank == 0:
        records.emit("locate-start", ranks=dist.get_world_size(), seed=arguments.seed)
    if not arguments.pairs_only:
        _alone(device, ranks.device_name(device).partition(" ")[2] or "cpu")
    rails = [word for word in arguments.rails.split(",") if word]
    group = _rail_group(fleet, rank, arguments.backend, rails)
    size_bytes = _GPU_BYTES if device.type == "cuda" else _CPU_BYTES
    send = torch.zeros(size_bytes, dtype=torch.uint8, device=device)
    here = _Rank(fleet, rank, device, group, send, torch.empty_like(send))
    _pairs(here, arguments.seed)
    if arguments.seconds > 0:
        _repeated(here, arguments.seconds)
    if rank == 0:
        records.emit("locate-end")
    dist.barrier()
    dist.destroy_process_group()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Measure; return 4 for a rank that cannot join."""
    parser = argparse.ArgumentParser(prog="locate")
    parser.add_argument("--backend", choices=("nccl", "gloo", "ccore"), required=True)
    parser.add_argument("--nodes", required=True, help="the node of each rank, comma-separated")
    parser.add_argument("--rails", default="", help="an interface for each place, comma-separated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0, help="repeat random pairs for so long")
    parser.add_argument("--pairs-only", action="store_true", help="do not measure every rank alone")
    parser.add_argument("-T", "--timeout", type=float, default=120.0, help="seconds")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else argv)
    return entry.enter(lambda place: _work(place, arguments), arguments.timeout)
