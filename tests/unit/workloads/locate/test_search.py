"""Slow nodes, rails and links of simulated fleets are named, and healthy ones are not."""

from __future__ import annotations

import random

import pytest
from simulated_pairs import SimulatedFleet

from clusterctl.workloads.locate.verdict import SuspectState


def named(verdict):
    return {(one.nodes, one.place) for one in verdict.named}


@pytest.mark.parametrize(("nodes", "runs"), [(3, 60), (4, 60), (8, 40), (16, 20), (64, 8)])
def test_a_healthy_fleet_with_disturbed_pairs_gets_no_name(nodes, runs):
    for seed in range(runs):
        assert named(SimulatedFleet(nodes, seed).locate()) == set()


@pytest.mark.parametrize(
    ("nodes", "bad", "runs"), [(3, 1, 20), (4, 1, 20), (8, 1, 20), (16, 2, 9), (64, 6, 3)]
)
def test_every_node_that_loses_15_percent_is_named_and_no_other(nodes, bad, runs):
    for seed in range(runs):
        slow = {(node, 0): 0.15 for node in random.Random(seed).sample(range(nodes), bad)}
        assert named(SimulatedFleet(nodes, seed, slow).locate()) == {((node,), 0) for node, _ in slow}


def test_a_rail_is_named_and_the_other_rails_of_its_node_are_not():
    verdict = SimulatedFleet(24, 1, {(5, 3): 0.25, (11, 0): 0.25}, places=8).locate()
    assert named(verdict) == {((5,), 3), ((11,), 0)}


@pytest.mark.parametrize("nodes", [3, 6, 40])
def test_a_slow_cable_is_a_link_and_names_no_node(nodes):
    for seed in range(4):
        assert named(SimulatedFleet(nodes, seed, cables={(0, 2): 0.3}).locate()) == {((0, 2), 0)}


def test_half_of_a_fleet_that_is_slow_is_inconclusive_and_named_with_its_loss():
    verdict = SimulatedFleet(16, 3, {(node, 0): 0.2 for node in range(8)}).locate()
    (groups,) = verdict.groups
    assert (set(groups.slow), set(groups.fast)) == (set(range(8)), set(range(8, 16)))
    assert groups.slow_ratio == pytest.approx(0.8, abs=0.05) and named(verdict) == set()


def test_two_nodes_are_a_link_that_nothing_can_be_compared_with():
    verdict = SimulatedFleet(2, 1, {(0, 0): 0.5}).locate()
    assert not verdict.findings and not verdict.groups


def test_a_slow_level_of_the_network_is_a_boundary_and_no_name():
    far = {
        (low, high): 0.3 for low in range(32) for high in range(low, 64) if (low ^ high) >= 32 and high >= 32
    }
    verdict = SimulatedFleet(64, 1, cables=far, bursts=False).locate()
    assert verdict.boundary is not None and verdict.boundary.group == 32
    assert {one.nodes for one in verdict.named if len(one.nodes) == 1} == set()


def test_a_rail_that_is_slow_on_all_nodes_names_the_rail():
    bad = {(node, 2): 0.3 for node in range(12)}
    verdict = SimulatedFleet(12, 1, bad, places=4).locate()
    assert [one.place for one in verdict.slow_places] == [2] and named(verdict) == set()


def test_a_node_whose_rates_are_missing_is_not_named():
    fleet = SimulatedFleet(8, 1)
    answer = fleet.answer
    fleet.answer = lambda planned: {key: rate for key, rate in answer(planned).items() if 3 not in key[0]}
    assert named(fleet.locate()) == set()


def test_a_small_loss_stays_below_the_names():
    for seed in range(10):
        verdict = SimulatedFleet(8, seed, {(2, 0): 0.05}, noise=0.01).locate()
        assert all(one.status is not SuspectState.NAMED for one in verdict.findings)


def test_the_same_rates_lead_to_the_same_rounds():
    first, second = SimulatedFleet(10, 7, {(1, 0): 0.2}), SimulatedFleet(10, 7, {(1, 0): 0.2})
    assert first.locate() == second.locate() and first.rounds == second.rounds
