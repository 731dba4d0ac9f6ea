"""Every node meets different partners, once per round."""

from __future__ import annotations

import itertools

import pytest

from clusterctl.workloads.locate import rounds


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 7, 8, 13, 16, 17, 24, 33, 64, 100, 257])
def test_no_node_is_in_two_pairs_of_a_round_and_few_pause(nodes):
    planned = rounds.rounds(nodes)
    assert len(planned) == rounds.count(nodes) >= 8
    for one in planned:
        members = [node for pair in one for node in pair]
        assert len(set(members)) == len(members) and set(members) <= set(range(nodes))
        assert all(low < high for low, high in one) and nodes - len(members) <= 1


@pytest.mark.parametrize("nodes", [17, 24, 33, 64, 100, 257])
def test_a_large_fleet_meets_a_new_partner_in_each_round(nodes):
    met = [set() for _ in range(nodes)]
    for low, high in itertools.chain(*rounds.rounds(nodes)):
        met[low].add(high)
        met[high].add(low)
    # In an odd fleet a node pauses in each round, and never the same one often.
    assert min(map(len, met)) >= rounds.count(nodes) - 2


def test_the_distance_doubles_with_each_round():
    for bit, one in enumerate(rounds.rounds(64)[: rounds.distance_bits(64)]):
        assert {high ^ low for low, high in one} == {1 << bit}


def test_a_small_fleet_meets_everyone_before_a_pair_repeats():
    planned = rounds.rounds(8)
    assert len(set(itertools.chain(*planned[:7]))) == 28 and planned[7] == planned[0]


def test_a_single_node_has_no_rounds():
    assert rounds.rounds(1) == [] and rounds.rounds(0) == []


def test_matchings_hold_each_node_once():
    packed = rounds.matchings([(0, 1), (0, 2), (1, 2), (3, 4)])
    assert sorted(itertools.chain(*packed)) == [(0, 1), (0, 2), (1, 2), (3, 4)]
    assert all(len({n for pair in one for n in pair}) == 2 * len(one) for one in packed)
