"""Time and check a collective over torch.distributed, with nccl-tests' flags and columns.

For nodes with torch but without nccl-tests. torch has each collective only in place or out of place; the other half
of a row is N/A.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from clusterctl.workloads import collectives, energy, entry, neighbours, places, rank_values, ranks, usage
from clusterctl.workloads.exchange import TorchGather
from clusterctl.workloads.shared_gpu import TIME_SLICES

DTYPES: dict[str, torch.dtype] = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "int64": torch.int64,
}
# Sizes in bytes. Up to the first one Python always limits the rate; beyond the second one it never does.
_SMALL = 2 << 20
_LARGEST_GRAPH = 8 << 20
# Between them Python was the limit if a graph takes less than this share of the time.
_HELD_UP = 0.9
# How often a graph is replayed for one figure.
_REPLAYS = 3
# How long the first call is repeated before the first size is measured, in seconds, and in how many batches of calls.
_SETTLE_S = 0.02
_SETTLE_CALLS = 20
_SETTLE_BATCHES = 200
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Parse a size in bytes with nccl-tests' suffixes K, M, G (powers of 1024)."""
    unit = text[-1:].upper() if text[-1:].upper() in _UNITS and not text[-1:].isdigit() else ""
    return int(float(text[: len(text) - len(unit)]) * _UNITS[unit])


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line (the flags of nccl-tests that apply here)."""
    parser = argparse.ArgumentParser(prog="collective")
    parser.add_argument("name", nargs="?", choices=sorted(collectives.ALL), default="all_reduce")
    parser.add_argument("-b", "--minbytes", type=parse_size, default=8)
    parser.add_argument("-e", "--maxbytes", type=parse_size, default=32 << 20)
    parser.add_argument("-f", "--stepfactor", type=int, default=2)
    parser.add_argument("-n", "--iters", type=int, default=20)
    parser.add_argument("-w", "--warmup_iters", type=int, default=1)
    parser.add_argument("-c", "--check", type=int, default=1)
    parser.add_argument("-d", "--datatype", choices=sorted(DTYPES), default="float")
    parser.add_argument("-o", "--op", choices=sorted(collectives.OPERATORS), default="sum")
    parser.add_argument("-g", "--ngpus", type=int, choices=(1,), default=1)
    parser.add_argument(
        "-G",
        "--cudagraph",
        choices=("0", "1", "auto"),
        default="0",
        help="replay as a graph; auto: if faster",
    )
    parser.add_argument("-T", "--timeout", type=float, default=600.0, help="seconds")
    parser.add_argument("--backend", choices=("nccl", "gloo", "ccore", "accl"), default=None)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    return parser.parse_args(argv)


def sizes(first: int, last: int, factor: int) -> list[int]:
    """Return the message sizes (bytes) from first to last."""
    if first < 1 or last < first:
        raise places.RankError(f"invalid sweep from {first} to {last} bytes")
    if factor < 2:
        return [first]
    found = []
    while first <= last:
        found.append(first)
        first *= factor
    return found


def counts(wanted: Sequence[int], unit: int) -> list[int]:
    """Return the elements of a part for each message size; ``unit``: the bytes of all parts of one element.

    Sizes below one element per rank round to the same count and appear once: duplicates would look like repeats.
    """
    return list(dict.fromkeys(max(1, size // unit) for size in wanted))


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def time_calls(call: Callable[[], Any], iters: int, device: torch.device, *, graph: bool) -> float:
    """Return the microseconds per call on this rank: CUDA events on a GPU, the wall clock on a CPU.

    Of a graph, the median of several replays: another process or an interrupt may disturb one.
    """
    if device.type != "cuda":
        started = time.perf_counter()
        for _ in range(iters):
            call()
        return (time.perf_counter() - started) / iters * 1e6
    captured = torch.cuda.CUDAGraph() if graph else None
    if captured is not None:
        with torch.cuda.graph(captured):
            for _ in range(iters):
                call()
        captured.replay()
        return statistics.median(_elapsed_ms(captured.replay, device) for _ in range(_REPLAYS)) / iters * 1e3

    def one_by_one() -> None:
        for _ in range(iters):
            call()

    return _elapsed_ms(one_by_one, device) / iters * 1e3


def _elapsed_ms(start: Callable[[], None], device: torch.device) -> float:
    """Return how long the work that ``start`` queues takes on this GPU, begun on all ranks together."""
    begin, end = _event(), _event()
    torch.cuda.synchronize(device)
    dist.barrier()
    torch.cuda.synchronize(device)
    begin.record()
    start()
    end.record()
    torch.cuda.synchronize(device)
    return float(begin.elapsed_time(end))


def settle(call: Callable[[], Any], size: int, device: torch.device) -> None:
    """Repeat the first call until caches, clock rates and the scheduler have settled; collective.

    Otherwise the first row shows these instead of its message. All ranks see the same time, so all end together.
    """
    batch = _SETTLE_CALLS if size <= _SMALL else 1
    elapsed = torch.zeros(1, dtype=torch.float64, device=device)
    started = time.perf_counter()
    for _ in range(_SETTLE_BATCHES):
        for _ in range(batch):
            call()
        elapsed.fill_(time.perf_counter() - started)
        dist.all_reduce(elapsed, op=dist.ReduceOp.MAX)
        if elapsed.item() >= _SETTLE_S:
            return


def graphs(cudagraph: str, size: int, device: torch.device, *, capturable: bool = True) -> tuple[bool, ...]:
    """Return how to start the calls: one by one (False) and as a CUDA graph (True); see ``fair_us``."""
    if device.type != "cuda" or cudagraph == "0":
        return (False,)
    if cudagraph == "1":
        return (True,)
    return (False, True) if capturable and size <= _LARGEST_GRAPH else (False,)


def can_be_captured(backend: str, device: torch.device, shared: str | None) -> bool:
    """Return whether the calls can be captured in a CUDA graph, after at least one call of them.

    Ranks that share a GPU in time slices measure their turns, so that a graph would show nothing more.
    """
    if device.type != "cuda" or (shared is not None and TIME_SLICES in shared):
        return False
    return backend == "nccl" or (backend == "ccore" and ranks.moves_by_kernels_alone())


def calls_timed(iters: int, starts: Sequence[bool]) -> int:
    """Return how often ``time_calls`` runs a call, one by one (False) and as a graph (True)."""
    return sum(iters * (1 + _REPLAYS if graph else 1) for graph in starts)


def fair_us(times_us: Sequence[float], size: int) -> float:
    """Return the time to report (us), from the calls one by one and, if measured, from a graph.

    A call from Python takes 25 to 40 us, longer than a small message on NVLink: there the faster time is reported.
    Larger messages are started one by one, as in nccl-tests, so that figures are comparable, unless Python was too slow
    on this machine.
    """
    one_by_one, graph = times_us[0], times_us[-1]
    if size <= _SMALL or graph < _HELD_UP * one_by_one:
        return min(one_by_one, graph)
    return one_by_one


def calls_line(size: int, times_us: Sequence[float]) -> str:
    """Return the comment on both times of a size, for comparisons in which each variant is started in the same way."""
    return f"# Calls of {size} bytes: {times_us[0]:.2f} us one by one, {times_us[-1]:.2f} us in a CUDA graph"


class RankPlace(NamedTuple):
    """The process, node, local rank and device of one rank, as it sent them."""

    pid: int
    host: str
    local: int
    device: str

    @classmethod
    def read(cls, value: object) -> RankPlace:
        """Read what a rank sent; raise NotUnderstood."""
        pid, host, local, device = rank_values.array(value, 4)
        return cls(
            rank_values.whole(pid, 1 << 32),
            rank_values.text(host, rank_values.HOST_CHARACTERS),
            rank_values.whole(local, 1 << 20),
            rank_values.text(device, rank_values.DEVICE_CHARACTERS),
        )


def header(arguments: argparse.Namespace, places: Sequence[RankPlace], shared: str | None = None) -> str:
    """Return the comment lines above the table; ``shared``: how ranks share the GPUs, if they do."""
    lines = [
        f"# torch {torch.__version__} backend {dist.get_backend()}",
        f"# Collective test starting: {arguments.name}_perf",
        (
            f"# nThread 1 nGpus 1 minBytes {arguments.minbytes} maxBytes {arguments.maxbytes} "
            f"step: {arguments.stepfactor}(factor) warmup iters: {arguments.warmup_iters} "
            f"iters: {arguments.iters} agg iters: 1 validation: {arguments.check} "
            f"graph: {arguments.cudagraph} unalign: 0"
        ),
        "#",
        "# Using devices",
    ]
    lines += [
        f"#  Rank {rank:2d} Group  0 Pid {p.pid:6d} on {p.host:>10s} device {p.local:2d} [{p.device}]"
        for rank, p in enumerate(places)
    ]
    if shared is not None:
        lines.append(f"# Ranks per GPU: {shared}")
    lines += [
        "#",
        "#" + "out-of-place".rjust(73) + "in-place".rjust(33),
        "#       size         count      type   redop    root" + 2 * "     time   algbw   busbw  #wrong",
        "#        (B)    (elements)                        " + 2 * "       (us)  (GB/s)  (GB/s)      ",
    ]
    return "\n".join(lines)


def _path_and_report(value: object) -> tuple[str | None, dict[str, Any]]:
    path, report = rank_values.array(value, 2)
    read = rank_values.text(path, rank_values.PATH_CHARACTERS) if path is not None else None
    return read, rank_values.members(report)


def library_lines(backend: str, device: torch.device, used: usage.Usage) -> list[str]:
    """Return the lines on the library below the table, with the paths and settings of all ranks; collective."""
    proof = ranks.backend_proof(backend)
    gathered = rank_values.gather(
        TorchGather(device), [ranks.device_path(backend, device), used.report()], _path_and_report,
        rank_values.REPORT_BYTES,
    )  # fmt: skip
    return [
        f"# Library {proof['backend']} {proof['version']} {' '.join(proof['libraries'])}",
        *(f"# Path of rank {rank}: {path}" for rank, (path, _) in enumerate(gathered) if path is not None),
        *(f"# Usage of rank {rank}: {json.dumps(report)}" for rank, (_, report) in enumerate(gathered)),
    ]


def row(
    arguments: argparse.Namespace,
    chosen: collectives.Collective,
    size: int,
    count: int,
    figures: tuple[float, float, float],
    wrong: int | None,
) -> str:
    """Return one line of the table; ``figures``: microseconds, algorithm and bus bandwidth in GB/s."""
    shown = "N/A" if wrong is None else str(wrong)
    measured = f"{figures[0]:7.2f}  {figures[1]:6.2f}  {figures[2]:6.2f}  {shown:>6s}"
    absent = "  ".join(["    N/A", "   N/A", "   N/A", "   N/A"])
    halves = (absent, measured) if chosen.in_place else (measured, absent)
    redop = arguments.op if chosen.reduces else "none"
    root = collectives.ROOT if chosen.rooted else -1
    return f"{size:12d}  {count:12d}  {arguments.datatype:>8s}  {redop:>6s}  {root:>6d}  {halves[0]}  {halves[1]}"


def gather_places(place: places.Place, device: torch.device) -> list[RankPlace]:
    """Return the processes and devices of all ranks; collective."""
    mine = RankPlace(os.getpid(), place.host, place.local_rank, ranks.device_name(device))
    return rank_values.gather(TorchGather(device), mine, RankPlace.read)


def means_of_ranks(times_us: Sequence[float], device: torch.device) -> list[float]:
    """Return the mean of all ranks of each time; collective."""
    means = torch.tensor(times_us, dtype=torch.float64, device=device)
    dist.all_reduce(means)
    return (means / dist.get_world_size()).tolist()


def prepare(arguments: argparse.Namespace, place: places.Place) -> tuple[torch.device, str, str | None]:
    """Return this rank's device and backend, and how it shares its GPU; raise RankError for a hypercube of 3 ranks.

    Called before the ranks join, because libraries read their settings when they start.
    """
    device = ranks.choose_device(place, arguments.device)
    if device.type == "cpu":
        ranks.use_own_cores(place)
    backend: str = arguments.backend or ("nccl" if device.type == "cuda" else "gloo")
    if arguments.name == "hypercube" and place.world_size & (place.world_size - 1):
        raise places.RankError(f"a hypercube needs 2, 4, 8, ... ranks, not {place.world_size}")
    if backend == "nccl" and arguments.cudagraph != "0":
        # Mixing graph launches with other calls costs NCCL 3 us or more per call; nothing else runs here.
        os.environ.setdefault("NCCL_GRAPH_MIXING_SUPPORT", "0")
    return device, backend, ranks.sharing(place, backend, device)


def run(arguments: argparse.Namespace, place: places.Place) -> int:
    """Sweep the sizes on this rank; rank 0 prints; return 1 if an element was wrong, else 0."""
    device, backend, shared = prepare(arguments, place)
    ranks.join(place, backend, device, arguments.timeout + 30.0)
    gathered = gather_places(place, device)
    used = usage.Usage(backend, joined=True)

    def say(text: str) -> None:
        if place.rank == 0:
            print(text, flush=True)

    say(header(arguments, gathered, shared))
    dtype = DTYPES[arguments.datatype]
    chosen = collectives.ALL[arguments.name]
    factor = chosen.bus_factor(place.world_size)
    unit = torch.empty((), dtype=dtype).element_size() * (place.world_size if chosen.split else 1)
    bandwidths: list[float] = []
    wrong_total, moved_bytes, capturable = 0, 0, False
    meter = energy.EnergyMeter(device)
    meter.begin()
    wanted = sizes(arguments.minbytes, arguments.maxbytes, arguments.stepfactor)
    for index, count in enumerate(counts(wanted, unit)):
        size = count * unit
        buffers = collectives.make(chosen, count, dtype, device, arguments.op)
        if index == 0 and arguments.warmup_iters > 0:
            settle(lambda made=buffers: chosen.call(made), size, device)  # type: ignore[misc]
        for _ in range(max(1, arguments.warmup_iters)):
            chosen.call(buffers)
        if index == 0:
            capturable = can_be_captured(backend, device, shared)
        used.skip()
        if device.type == "cpu":
            dist.barrier()
        starts = graphs(arguments.cudagraph, size, device, capturable=capturable)
        elapsed = [
            time_calls(
                lambda made=buffers: chosen.call(made),  # type: ignore[misc]
                arguments.iters, device, graph=graph,
            )
            for graph in starts
        ]  # fmt: skip
        used.look()
        moved_bytes += size * (max(1, arguments.warmup_iters) + calls_timed(arguments.iters, starts))
        times_us = means_of_ranks(elapsed, device)
        time_us = fair_us(times_us, size)
        algbw = size / time_us / 1e3
        bandwidths.append(algbw * factor)
        wrong = collectives.count_wrong(chosen, buffers) if arguments.check else None
        wrong_total += wrong or 0
        say(row(arguments, chosen, size, count, (time_us, algbw, algbw * factor), wrong))
        if len(times_us) > 1:
            say(calls_line(size, times_us))
    used.energy = meter.report(moved_bytes)
    say(f"# Out of bounds values : {wrong_total} {'FAILED' if wrong_total else 'OK'}")
    say(f"# Avg bus bandwidth    : {sum(bandwidths) / len(bandwidths):g}\n#")
    say("\n".join(library_lines(backend, device, used)))
    # A sweep of small messages only (preflight: 8 bytes) does not measure neighbours, which needs large ones.
    if arguments.maxbytes >= neighbours.LEAST_SWEEP_BYTES:
        for line in neighbours.lines([p.host for p in gathered], device):
            say(line)
    say(f"# Collective test concluded: {arguments.name}_perf")
    dist.barrier()
    dist.destroy_process_group()
    return 1 if wrong_total else 0


def main(argv: list[str] | None = None) -> int:
    """Run the sweep on this rank; return 1 for a wrong result, 4 for a rank that cannot join."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    return entry.enter(lambda place: run(arguments, place), arguments.timeout)


if __name__ == "__main__":
    raise SystemExit(main())
