"""Launch an additional measurement that shows which node is slow, for programs that only time all ranks together."""

from __future__ import annotations

from dataclasses import replace

from clusterctl.benchmarks import neighbours
from clusterctl.benchmarks.neighbours import Neighbourhood
from clusterctl.errors import LaunchError
from clusterctl.launch import choose
from clusterctl.launch.base import LaunchPlan
from clusterctl.launch.environment import backend
from clusterctl.launch.failure import Outcome
from clusterctl.launch.plan import RequestPlan
from clusterctl.workloads.archive import ARCHIVE

_TIMEOUT_S = 120.0
# A link has two ends. A slow link can be assigned to one node only if that node has a second neighbour.
_LEAST_NODES = 3


def plan(chosen: RequestPlan, measured: LaunchPlan) -> LaunchPlan | None:
    """Return the launch of the workload on the same nodes, None if torch is missing or there are too few nodes."""
    if len(measured.placements) < _LEAST_NODES or not all(answer.torch for answer in chosen.answers):
        return None
    if chosen.sweep.gpus > 1:
        return None  # the workload has one GPU per process
    try:
        program = choose.torch_program(chosen.answers, f"{measured.directory}/{ARCHIVE}", "neighbours")
    except LaunchError:
        return None  # Pythons at different paths
    timeout_s = min(measured.timeout_s, _TIMEOUT_S)
    words = (*program.words, "--backend", backend(chosen.library), "-T", f"{timeout_s:g}")
    return replace(chosen.launch(measured.np, words, number=1), timeout_s=timeout_s)


def parse(launched: LaunchPlan, outcome: Outcome) -> Neighbourhood:
    """Return the neighbour measurements that rank 0 gathered from all ranks, with node names."""
    return neighbours.parse(outcome.table.splitlines()).placed(launched.node_of_rank)
