"""Nodes in the order of their network: those with fast pairs together, slow nodes last, equals as in the inventory."""

from __future__ import annotations

import pytest

from clusterctl.documents.bench import BenchResult, BenchStatus
from clusterctl.documents.locate import Locate, LocateStatus, PairRate, Suspect, SuspectStatus
from clusterctl.documents.proof import Proof, Topology, TopologyGroup
from clusterctl.errors import ResultError
from clusterctl.results import node_order
from clusterctl.rundir import RunDir

DEALT = ["gpu1", "gpu2", "gpu3", "gpu4"]
"""On two switches, one after the other: gpu1 and gpu3, gpu2 and gpu4."""


def switch_of(name):
    return int(name[-1]) % 2


def rates(names, near=25.0, far=12.0):
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    return {
        (one, other): (near if switch_of(one) == switch_of(other) else far) * (1 + at % 3 / 50)
        for at, (one, other) in enumerate(pairs)
    }


def keep(root, measured, *slow):
    run = RunDir.create("locate", root)
    suspects = tuple(
        Suspect(
            nodes=(name,), place=0, interface=None, status=SuspectStatus.NAMED, ratio=0.7, chance=1e-4,
            confirmations=6, low_with=8, partners=8,
        )
        for name in slow
    )  # fmt: skip
    found = Locate(
        run=run.id, status=LocateStatus.NAMED if slow else LocateStatus.NONE, library="gloo", launcher="openmpi",
        nodes=4, ranks=4, rounds=8, windows=3, repeated=0, duration_s=1.0, false_alarms_per_run=0.002,
        suspects=suspects, suspects_alone=(), sometimes_slow=(), groups=(), boundary=None, slow_rails=(), rates=(),
        pairs=tuple(PairRate(nodes=pair, place=0, gbps=rate) for pair, rate in measured.items()), failures=(),
    )  # fmt: skip
    run.write("results", found.document())
    return run.id


def test_nodes_of_one_switch_are_neighbours(tmp_path):
    run = keep(tmp_path, rates(DEALT))
    found = node_order.by_topology(DEALT, tmp_path)
    assert found.names == ("gpu1", "gpu3", "gpu2", "gpu4")
    assert found.comment == f"ordered by topology: {run}"


def test_equal_rates_leave_the_order_as_it_is():
    assert node_order.neighbours_first(DEALT, rates(DEALT, near=12.0)) == DEALT


def test_groups_of_groups_are_neighbours_too():
    """Two switches below each of two spines, and one node that no run has measured."""
    names = [f"n{at}" for at in range(9)]
    spine = {name: at % 2 for at, name in enumerate(names)}
    switch = {name: at % 4 for at, name in enumerate(names)}
    measured = {
        (one, other): 100.0 if switch[one] == switch[other] else 50.0 if spine[one] == spine[other] else 20.0
        for at, one in enumerate(names[:8])
        for other in names[at + 1 : 8]
    }
    order = node_order.neighbours_first(names, measured)
    assert order == ["n0", "n4", "n2", "n6", "n1", "n5", "n3", "n7", "n8"]


def test_a_link_without_data_joins_last():
    assert node_order.neighbours_first(["a", "b", "c"], {("a", "b"): 0.0, ("a", "c"): 3.0}) == ["a", "c", "b"]
    assert node_order.neighbours_first(["a", "b"], {("a", "b"): 0.0}) == ["a", "b"]
    assert node_order.neighbours_first(["a"], {}) == ["a"]


def test_the_newest_run_with_these_nodes_counts_and_slow_ones_are_last(tmp_path):
    older = keep(tmp_path, rates(DEALT, near=12.0, far=25.0))
    # Ids name the second of the start, so that runs of one second have no order.
    (tmp_path / older).rename(tmp_path / f"20200101T000000Z{older[16:]}")
    newest = keep(tmp_path, rates(DEALT), "gpu1")
    keep(tmp_path, rates(["other1", "other2"]))
    RunDir.create("locate", tmp_path).file("results").write_text("{")  # damaged
    found = node_order.by_topology(DEALT, tmp_path)
    assert found.names == ("gpu3", "gpu2", "gpu4", "gpu1")
    assert found.slow == ("gpu1",)
    assert found.comment == f"ordered by topology: {newest}; last, because locate named them: gpu1"


def test_the_slowest_rail_of_a_pair_counts(tmp_path):
    run = keep(tmp_path, rates(DEALT))
    document = RunDir(tmp_path / run).read("results")
    document["pairs"] += [{"nodes": list(pair), "place": 1, "gbps": 12.0} for pair in rates(DEALT)]
    RunDir(tmp_path / run).write("results", document)
    assert node_order.by_topology(DEALT, tmp_path).names == tuple(DEALT)


def test_nodes_that_nccl_found_alike_are_together(tmp_path):
    run = RunDir.create("bench", tmp_path)
    groups = (
        TopologyGroup(nodes=("gpu2", "gpu4"), source="nccl"),
        TopologyGroup(nodes=("gpu1",), source="nccl"),
    )
    proof = Proof(topology=Topology(groups=groups, differences=()))
    run.write(
        "results",
        BenchResult(
            run=run.id, benchmark="collective", launcher=None, status=BenchStatus.OK, proof=proof
        ).document(),
    )
    found = node_order.by_topology(DEALT, tmp_path)
    assert found.names == ("gpu2", "gpu4", "gpu1", "gpu3")
    assert found.comment == f"ordered by topology: {run.id}"


def test_without_a_run_the_error_names_what_to_run(tmp_path):
    keep(tmp_path, rates(["other1", "other2"]))
    with pytest.raises(ResultError, match="no run of locate, and no benchmark") as refused:
        node_order.by_topology(DEALT, tmp_path)
    assert "clusterctl locate" in refused.value.hint
