"""Measure pairs of nodes as ``locate`` does, if the pairs beside a collective look uneven: confirmed, or dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from clusterctl.benchmarks import locate as records
from clusterctl.benchmarks.locate import Located
from clusterctl.benchmarks.neighbours import Neighbourhood
from clusterctl.documents.evidence import SlowPart
from clusterctl.errors import LaunchError, UsageError
from clusterctl.launch import locate
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.failure import Outcome
from clusterctl.launch.plan import RequestPlan
from clusterctl.launch.preflight import Readiness
from clusterctl.launch.request import Request
from clusterctl.launch.run import Runner
from clusterctl.workloads.locate.cpu import MESSAGE_BYTES as CPU_BYTES
from clusterctl.workloads.locate.search import suspects_of

_TIMEOUT_S = 300.0
_LEAST_NODES = 3


def plan(
    chosen: RequestPlan, measured: LaunchPlan, neighbours: Neighbourhood, runner: Runner
) -> tuple[LaunchPlan, tuple[str, ...]] | None:
    """Return the launch and its rails; None if nothing looks slow, or if it cannot be measured.

    Ranks that use several interfaces at once hide a slow one, so these are always measured one by one. Neighbours are
    measured with torch, so that pairs are always measured on nodes without it.
    """
    names = {placement.node for placement in measured.placements}
    answers: Sequence[Readiness] = [answer for answer in chosen.answers if answer.node.name in names]
    np = measured.np if chosen.on_gpus else None
    asked = locate.request(chosen.library, np, chosen.launcher.name, min(measured.timeout_s, _TIMEOUT_S))
    if len(answers) < _LEAST_NODES or not _can_measure(chosen, asked, answers, neighbours):
        return None
    if not neighbours.ranks:
        # Nothing tells how fast the network is, so messages are not larger than those of the collective.
        asked = replace(asked, sweep={"max_bytes": min(chosen.sweep.max_bytes, CPU_BYTES)})
    several = not chosen.on_gpus and bool(locate.rails_of(answers))
    if neighbours.ranks and not several and not _is_uneven(neighbours):
        return None
    try:
        _, extra, rails = locate.planned(asked, answers, runner, pairs_only=True)
    except (LaunchError, UsageError):
        return None  # Pythons at different paths, a library without pairs
    return extra, rails


def _can_measure(
    chosen: RequestPlan, asked: Request, answers: Sequence[Readiness], neighbours: Neighbourhood
) -> bool:
    """Return whether the nodes have what pairs need: without torch only host memory is measured."""
    if all(answer.torch for answer in answers):
        return bool(neighbours.ranks)
    if chosen.on_gpus or not locate.measures_without_torch(asked, answers):
        return False
    if chosen.sweep.max_bytes < locate.LEAST_BYTES:
        return False
    return all(answer.core_perf or "CCORE_LIBRARY" in answer.node.env for answer in answers)


def _is_uneven(neighbours: Neighbourhood) -> bool:
    """Return whether a rank with its best partner, or a single pair, is slower than the others."""
    ranks = {one.rank: one.best_gbps for one in neighbours.ranks}
    pairs: Mapping[tuple[int, int], float] = {
        (min(one.rank, peer), max(one.rank, peer)): rate
        for one in neighbours.ranks
        for peer, rate in one.gbps.items()
    }
    return bool(suspects_of(ranks) or suspects_of(dict(enumerate(pairs.values()))))


def parse(
    launched: LaunchPlan, outcome: Outcome, rails: Sequence[str]
) -> tuple[tuple[SlowPart, ...] | None, Located]:
    """Return what was confirmed as slow, None if the run did not reach its end."""
    found = records.parse(outcome.stdout_by_rank, launched.node_of_rank, pairs_only=True)
    if found.verdict is None:
        return None, found
    return tuple(
        SlowPart(
            tuple(found.fleet.names[node] for node in one.nodes), one.place,
            rails[one.place % len(rails)] if rails else None, round(one.ratio, 4), one.chance,
        )
        for one in found.verdict.named
    ), found  # fmt: skip
