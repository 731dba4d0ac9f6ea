"""What a request is measured with: the sizes that it leaves open, and the variables that its result names."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from clusterctl.benchmarks.neighbours import Neighbourhood, Neighbours
from clusterctl.benchmarks.training import Training
from clusterctl.documents.evidence import SlowPart
from clusterctl.inventory.model import Node
from clusterctl.launch.identity import SHOWN
from clusterctl.launch.measure import Measurement
from clusterctl.launch.measured import environment_of
from clusterctl.launch.plan import CPU_SWEEP, plan, sweep_of
from clusterctl.launch.readiness import assumed
from clusterctl.launch.request import Request


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [
        ({}, (8, 8 << 20)),
        ({"min_bytes": 64 << 20}, (64 << 20, 64 << 20)),
        ({"max_bytes": 4}, (4, 4)),
        ({"min_bytes": 1024}, (1024, 8 << 20)),
        ({"min_bytes": 1024, "max_bytes": 2048}, (1024, 2048)),
    ],
)
def test_one_end_of_a_sweep_beyond_the_others_default_takes_it_along(asked, sizes):
    sweep = sweep_of(CPU_SWEEP, Request(None, asked, None, None, None, None, None, 60.0, "alltoall"))
    assert (sweep.name, sweep.min_bytes, sweep.max_bytes) == ("alltoall", *sizes)


def test_the_variables_of_the_inventory_that_move_figures_are_named_with_the_figures():
    """Else a run with NCCL_ALGO=Ring would pass for one like all others."""
    inventory = {
        "NCCL_ALGO": "Ring",
        "NCCL_DEBUG": "WARN",
        "GLOO_X": "1",
        "PATH": "/bin",
        "NCCL_API_TOKEN": "s3cr3t",
    }
    node = Node(name="n", address="n", env=inventory)
    chosen = SimpleNamespace(library="nccl", answers=[SimpleNamespace(node=node)], environment={})
    shown = {**inventory, "NCCL_API_TOKEN": None, "NCCL_IB_TC": "106", "MASTER_PORT": "1"}
    launch = SimpleNamespace(env=tuple(shown.items()))
    assert environment_of(launch, chosen) == {"environment": {"NCCL_ALGO": "Ring"}}
    assert environment_of(SimpleNamespace(env=()), chosen) == {}
    chosen.environment["NCCL_IB_TC"] = "106"
    assert environment_of(launch, chosen)["environment"] == {"NCCL_ALGO": "Ring", "NCCL_IB_TC": "106"}


@pytest.mark.parametrize(
    ("np", "points", "measured"),
    [(None, None, (1, 2, 4)), (4, None, (4,)), (3, None, (3,)), (None, (1, 4), (1, 4))],
)
def test_a_number_of_ranks_is_measured_alone_and_the_curve_without_one(np, points, measured):
    nodes = [replace(assumed(Node(name=name, address=name, slots=2)), torch="2.11") for name in "ab"]
    request = Request(Training("resnet18"), {}, np, points, "gloo", "openmpi", None, 60.0)
    chosen = plan(request, nodes, SHOWN)
    assert chosen.points == measured
    assert tuple(one.np for one in chosen.launches()) == measured


class Looking(Measurement):
    """A measurement whose additional launches have given results; ``said`` is what it prints."""

    def __init__(self, by_neighbours, by_pairs):
        self.said, self.by_neighbours, self.by_pairs = [], by_neighbours, by_pairs
        self._say = self.said.append
        self._launches = SimpleNamespace(documents=())

    def _beside(self, _chosen, _plan):
        self._launches.documents += ({},)
        return self.by_neighbours

    def _slow_parts(self, _chosen, _plan, _neighbours):
        if self.by_pairs == "not needed":
            return None
        self._launches.documents += ({},)
        return self.by_pairs


def rates(*of_ranks):
    return Neighbourhood(
        1, tuple(Neighbours(rank, f"n{rank}", {9: rate}) for rank, rate in enumerate(of_ranks))
    )


@pytest.mark.parametrize(
    ("by_neighbours", "by_pairs", "said"),
    [
        (rates(5, 5, 5, 5), "not needed", ["no rank is slow"]),
        (rates(5, 5, 5, 2), "not needed", ["slow: rank 3 on n3"]),
        (rates(5, 5, 5, 2), (), ["no rank is slow"]),
        (rates(5, 5, 5, 2), (SlowPart(("n3",), 0, None, 0.4, 1e-6),), ["slow: n3"]),
        (rates(5, 5, 5, 5), None, []),
        (Neighbourhood(), "not needed", []),
    ],
    ids=["even", "uneven, no pairs", "cleared", "confirmed", "pairs failed", "nothing measured"],
)
def test_the_search_for_a_slow_rank_ends_with_a_line(by_neighbours, by_pairs, said):
    looking = Looking(by_neighbours, by_pairs)
    looking._look_for_slow(None, None, Neighbourhood())
    assert looking.said == said
    # Without an additional launch nothing was announced.
    silent = Looking(rates(5, 5, 5, 5), "not needed")
    silent._look_for_slow(None, None, rates(5, 5, 5, 5))
    assert silent.said == []
