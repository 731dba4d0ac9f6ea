"""Who exchanges data with whom, which distinguishes a slow rank from its neighbours; and what they print is read."""

from __future__ import annotations

import pytest
import torch

from clusterctl.benchmarks import neighbours as said
from clusterctl.trust import slow_neighbours
from clusterctl.workloads import neighbours

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("hosts", "groups"),
    [
        ("aabbcc", [[0, 2, 4], [1, 3, 5]]),
        ("abcabc", [[0, 1, 2], [3, 4, 5]]),  # ranks dealt out node by node
        ("aaaa", [[0, 1, 2, 3]]),
        ("aabbb", [[0, 2], [1, 3]]),  # the last of b has none to meet
        ("a", []),
    ],
)
def test_ranks_of_one_place_are_a_group_through_the_nodes(hosts, groups):
    assert neighbours.groups(hosts) == groups


@pytest.mark.parametrize(("size", "partners"), [(2, 1), (3, 2), (4, 3), (7, 6), (8, 7), (64, 8), (125, 7)])
def test_every_rank_meets_several_others_and_only_one_at_a_time(size, partners):
    group = [7 * i for i in range(size)]
    found = neighbours.rounds(group)
    met = {rank: set() for rank in group}
    for of_round in found:
        busy = [rank for pair in of_round for rank in pair]
        assert len(busy) == len(set(busy))
        for low, high in of_round:
            met[low].add(high)
            met[high].add(low)
    assert min(map(len, met.values())) >= partners and len(found) <= 8


def test_where_nothing_could_be_learnt_nothing_is_measured():
    assert neighbours.tells_something("abc", CPU) and neighbours.tells_something("aaa", GPU)
    assert not neighbours.tells_something("aaaa", CPU)
    assert not neighbours.tells_something("ab", GPU)
    assert neighbours.lines("ab", CPU) == []


def spoken(speeds):
    """What rank 0 prints for a ring of nodes whose links have these GB/s: link i is between rank i and i + 1."""
    size = len(speeds)
    lines = ["# Neighbours: 4194304 bytes each way at once, best of 3"]
    lines += [
        f"# Neighbours of rank {rank} on host: {speeds[rank]:.3f} GB/s with {(rank + 1) % size}, "
        f"{speeds[rank - 1]:.3f} GB/s with {(rank - 1) % size}"
        for rank in range(size)
    ]
    return said.parse(["#  Rank  0 on nothing", *lines, "# Out of bounds values : 0 OK"])


def test_a_slow_node_is_found_and_its_neighbours_are_not():
    found = spoken([10.0, 10.1, 2.0, 2.1, 10.2, 9.9]).placed([f"n{i}" for i in range(6)])
    assert found.size_bytes == 4 << 20
    assert [one.best_gbps for one in found.ranks] == [10.0, 10.1, 10.1, 2.1, 10.2, 10.2]
    (slow,) = slow_neighbours.find(found)
    assert (slow.rank, slow.host, slow.gbps) == (3, "n3", 2.1)
    assert slow.loss == pytest.approx(0.79, abs=0.01)


def test_links_that_differ_by_little_are_no_finding():
    assert slow_neighbours.find(spoken([10.0, 10.0, 9.3, 9.3, 10.0, 10.0])) == ()


def test_a_healthy_program_prints_none_and_that_is_nothing():
    assert said.parse(["#  Rank  0 Group  0 Pid 1 on a device 0 [cpu]"]).ranks == ()
