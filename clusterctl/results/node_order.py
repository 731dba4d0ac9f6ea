"""Order nodes so that those with a fast network between them are neighbours, by what earlier runs have measured."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from clusterctl import rundir
from clusterctl.documents.bench import BenchResult
from clusterctl.documents.locate import Locate
from clusterctl.errors import ClusterctlError, ResultError
from clusterctl.run_ids import BENCHMARKS
from clusterctl.rundir import RunDir
from clusterctl.text.typed_inventory import filled

_Result = TypeVar("_Result", BenchResult, Locate)
_STEP = 0.8
"""Rates of healthy pairs differ by less; a hop over an oversubscribed switch costs more."""


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """Hold the ordered names, the runs that the order is derived from, and the names that ``locate`` found slow."""

    names: tuple[str, ...]
    runs: tuple[str, ...]
    slow: tuple[str, ...]

    @property
    def comment(self) -> str:
        """Return where the order comes from, in one line for the file."""
        slow = f"; last, because locate named them: {', '.join(self.slow)}" if self.slow else ""
        return f"ordered by topology: {', '.join(self.runs)}{slow}"


def by_topology(names: Sequence[str], root: Path) -> NodeOrder:
    """Order by the latest runs: the groups of NCCL's dumps of a benchmark, the pairs of ``locate``, what it named.

    Slow nodes are last, so that a launch that needs fewer nodes leaves them out. Raise ResultError if no run has two of
    these nodes.
    """
    ordered, runs, slow = list(names), [], frozenset[str]()
    for measured in _latest(root, BENCHMARKS, BenchResult):
        groups = () if measured.proof.topology is None else measured.proof.topology.groups
        place = {name: at for at, group in enumerate(groups) for name in group.nodes}
        if len(place.keys() & set(names)) > 1:
            ordered.sort(key=lambda name: place.get(name, len(groups)))
            runs.append(measured.run)
            break
    for located in _latest(root, ("locate",), Locate):
        rates: dict[tuple[str, str], float] = {}
        for one in located.pairs:
            if set(one.nodes) <= set(names):  # of several rails the slowest
                rates[one.nodes] = min(one.gbps, rates.get(one.nodes, one.gbps))
        if rates:
            ordered = neighbours_first(ordered, rates)
            slow = frozenset(located.named_nodes)
            runs.append(located.run)
            break
    if not runs:
        raise ResultError(
            "no run of locate, and no benchmark with NCCL's topology, has measured two of these nodes",
            hint=filled("run `clusterctl locate INVENTORY` on them first, or use --order inventory", ""),
        )
    ordered.sort(key=slow.__contains__)
    return NodeOrder(tuple(ordered), tuple(runs), tuple(name for name in ordered if name in slow))


def neighbours_first(names: Sequence[str], rates: Mapping[tuple[str, str], float]) -> list[str]:
    """Join the nodes of fast pairs to groups, then groups by ever slower pairs; equals keep their order in ``names``.

    ``rates``: of two nodes, in any unit. Rates within a factor of 0.8 of each other count as equal.
    """
    best = max(rates.values(), default=0.0)
    levels: dict[float, list[tuple[str, str]]] = {}
    for pair, rate in rates.items():
        level = math.floor(math.log(rate / best, _STEP)) if rate > 0 else math.inf
        levels.setdefault(level, []).append(pair)
    groups = [[name] for name in names]
    for _, pairs in sorted(levels.items()):
        joins = list(range(len(groups)))  # by group: itself, or an earlier one

        def first(group: int, joins: list[int] = joins) -> int:
            while joins[group] != group:
                group = joins[group]
            return group

        group_of = {name: at for at, group in enumerate(groups) for name in group}
        for one, other in pairs:
            earlier, later = sorted((first(group_of[one]), first(group_of[other])))
            joins[later] = earlier
        merged: dict[int, list[str]] = {}
        for at, group in enumerate(groups):
            merged.setdefault(first(at), []).extend(group)
        groups = list(merged.values())
    return [name for group in groups for name in group]


def _latest(root: Path, verbs: tuple[str, ...], kind: type[_Result]) -> Iterator[_Result]:
    """Yield the results of runs, newest first; damaged run folders are left out."""
    for run in rundir.ids(root, verbs, "results"):
        with contextlib.suppress(ClusterctlError, ValueError):
            yield kind.model_validate(RunDir(root / run).read("results"))
