"""Measure what ``clusterctl locate`` judges: every rank alone, then pairs of nodes on all rails at once.

All ranks walk through the same rounds: each gets all rates of a round, so each of them comes to the same next one.
Each rank writes its own rates as records, from which clusterctl reaches the verdict again by itself: so no rank can
report a rate of two others, nor can rank 0.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clusterctl.text.visible import one_line
from clusterctl.workloads import entry, rank_values, records
from clusterctl.workloads.cpu_quota import CpuQuota
from clusterctl.workloads.locate import alone, cause, ends, intermittent
from clusterctl.workloads.locate.cause import CauseTest, Probe
from clusterctl.workloads.locate.fleet import RankFleet
from clusterctl.workloads.locate.rounds import Pair
from clusterctl.workloads.locate.search import search
from clusterctl.workloads.locate.tools import ExchangePart, RankTools
from clusterctl.workloads.locate.verdict import LocateVerdict, Values
from clusterctl.workloads.places import Place

_REPEATS = 3
# Repeated rounds are written together, so that a long run of many ranks writes few lines.
_MOST_MET, _WRITE_EVERY_S = 500, 5.0


@dataclass(frozen=True)
class _Rank:
    """This rank: who the others are, and what it measures with."""

    fleet: RankFleet
    tools: RankTools


def _round(
    here: _Rank, planned: Sequence[Pair], probe: Probe | None = None
) -> tuple[Values, list[object] | None]:
    """Measure the pairs of one round on all their places.

    Return the rates in GB/s of all pairs, and the peer and rate of this rank, None if it paused.
    """
    tools = here.tools
    tools.barrier()
    peer, rate = here.fleet.peer(tools.rank, planned), 0.0
    node, place = here.fleet.where(tools.rank)
    if peer is not None and (probe is None or probe.place in (None, place)):
        part = _part(probe, node)
        tools.exchange(peer, 1 if tools.iters == 1 else 3, part)
        # Other load only makes a time longer, so the best one counts; a slow link is slow each time.
        seconds = min(tools.exchange(peer, tools.iters, part) for _ in range(_REPEATS))
        rate = tools.message_bytes / seconds / 1e9
    rates = tools.gathered(_short(rate), rank_values.number)
    # A rank sends its rate only: with whom it measured follows from the plan.
    meetings = here.fleet.meetings(planned, probe.place if probe is not None else None)
    values = ends.agreed({key: (rates[low], rates[high]) for key, (low, high) in meetings.items()})
    return values, [peer, _short(rate)] if rate else None


def _part(probe: Probe | None, node: int) -> ExchangePart:
    """Return what a node of a pair does in a round."""
    if probe is None or probe.test is CauseTest.ALONE:
        return ExchangePart.BOTH
    is_first = any(one[0] == node for one in probe.pairs)
    return ExchangePart.SEND if is_first is (probe.test is CauseTest.SENDS) else ExchangePart.RECEIVE


def _device(value: object) -> str:
    return rank_values.text(value, rank_values.DEVICE_CHARACTERS)


def _rate(work: Callable[[], object], amount: float, tools: RankTools) -> float:
    """Return the amount of work per second, over about a window after one call to warm up."""
    work()
    tools.finish()
    started, calls = time.perf_counter(), 0
    while time.perf_counter() - started < tools.window_s:
        for _ in range(4):
            work()
        tools.finish()
        calls += 4
    return amount * calls / (time.perf_counter() - started)


def _alone(tools: RankTools, device: str) -> None:
    """Measure every rank alone, all at once, until the judge has seen enough."""
    devices = tools.gathered(device, _device)
    work = tools.own_work()
    judge = alone.judge(devices)
    next(judge)
    while True:
        by_measure: dict[str, list[float]] = {}
        for measure, (call, amount) in work.items():
            tools.barrier()
            by_measure[measure] = tools.gathered(_short(_rate(call, amount, tools)), rank_values.number)
        own = {measure: rates[tools.rank] for measure, rates in by_measure.items()}
        records.emit("locate-window", rank=tools.rank, rates=own)
        try:
            judge.send(
                {(m, rank): rate for m, rates in by_measure.items() for rank, rate in enumerate(rates)}
            )
        except StopIteration:
            return


def _short(rate: float) -> float:
    """Return the rate as it is written: six digits are more than a measurement has."""
    return float(f"{rate:.6g}")


def _pairs(here: _Rank, seed: int) -> LocateVerdict:
    """Measure the rounds of the search."""
    rounds = search(len(here.fleet.ranks), seed)
    values: Any = None
    while True:
        try:
            # None starts the search, which ends at once if there is only one node.
            planned = rounds.send(values)
        except StopIteration as ended:
            verdict: LocateVerdict = ended.value
            return verdict
        values = _recorded(here, "locate-round", planned)


def _recorded(here: _Rank, kind: str, planned: Sequence[Pair], probe: Probe | None = None) -> Values:
    """Measure a round, and write the rate of this rank as a record."""
    values, own = _round(here, planned, probe)
    records.emit(kind, rank=here.tools.rank, met=[own])
    return values


def _causes(here: _Rank, verdict: LocateVerdict, seed: int) -> None:
    """Measure the rounds that tell why something that was named is slow."""
    tests = cause.examine(verdict.named, len(here.fleet.ranks), seed)
    values: Any = None
    while True:
        try:
            probe = tests.send(values)
        except StopIteration:
            return
        values = _recorded(here, "locate-cause", probe.planned, probe)


def _repeated(here: _Rank, seconds: float) -> None:
    """Measure random pairs for so many seconds."""
    began = written = time.monotonic()
    met: list[list[object] | None] = []
    for number in itertools.count():
        # As rank 0 decides, so that all ranks end after the same round.
        goes_on = here.tools.gathered(time.monotonic() - began < seconds, rank_values.flag)[0]
        now = time.monotonic()
        if met and (not goes_on or len(met) >= _MOST_MET or now - written > _WRITE_EVERY_S):
            records.emit("locate-repeated", round=number, rank=here.tools.rank, met=met)
            met, written = [], now
        if not goes_on:
            return
        met.append(_round(here, intermittent.plan(len(here.fleet.ranks), number))[1])


def _join(place: Place, arguments: argparse.Namespace) -> RankTools:
    """Return this rank's tools; torch is imported only if it is used."""
    if arguments.without_torch:
        from clusterctl.workloads.locate.core_rank import CoreRank

        return CoreRank(arguments.bytes, arguments.timeout)
    from clusterctl.workloads.locate.torch_rank import TorchRank

    return TorchRank(place, arguments.backend, arguments.bytes, arguments.timeout)


def _work(place: Place, arguments: argparse.Namespace) -> int:
    tools = _join(place, arguments)
    quota = CpuQuota()
    fleet = RankFleet.of([str(node) for node in arguments.nodes.split(",")])
    device = one_line(tools.device, rank_values.DEVICE_CHARACTERS)
    records.emit("locate-start", rank=tools.rank, ranks=tools.size, seed=arguments.seed, device=device)
    if not arguments.pairs_only:
        _alone(tools, device)
    rails = [word for word in arguments.rails.split(",") if word]
    if len(rails) > 1:
        tools.use_rails(fleet, rails)
    here = _Rank(fleet, tools)
    verdict = _pairs(here, arguments.seed)
    if not arguments.pairs_only:
        _causes(here, verdict, arguments.seed)
    if arguments.seconds > 0:
        _repeated(here, arguments.seconds)
    records.emit("locate-end", rank=tools.rank, quota=quota.report())
    tools.barrier()
    tools.leave()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Measure; return 4 for a rank that cannot join."""
    parser = argparse.ArgumentParser(prog="locate")
    parser.add_argument("--backend", choices=("nccl", "gloo", "ccore"), required=True)
    parser.add_argument("--nodes", required=True, help="the node of each rank, comma-separated")
    parser.add_argument("--rails", default="", help="an interface for each place, comma-separated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0, help="repeat random pairs for so long")
    parser.add_argument(
        "--pairs-only", action="store_true", help="measure neither every rank alone nor causes"
    )
    parser.add_argument(
        "--without-torch", action="store_true", help="the CPU and host memory, with ccore alone"
    )
    parser.add_argument("--bytes", type=int, help="the size of a message")
    parser.add_argument("-T", "--timeout", type=float, default=120.0, help="seconds")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else argv)
    return entry.enter(lambda place: _work(place, arguments), arguments.timeout)
