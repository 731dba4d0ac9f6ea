"""A node that is slow in some rounds is named with --for, and its partners are not."""

from __future__ import annotations

import random

import pytest
from simulated_pairs import SimulatedFleet

from clusterctl.workloads.locate import intermittent


def measured(nodes, rounds, seed, slow=()):
    """Rounds in which the slow nodes lose 30 % in a third of the rounds."""
    fleet, chance, found = SimulatedFleet(nodes, seed), random.Random(seed), []
    for number in range(rounds):
        values = fleet.answer(intermittent.plan(nodes, number))
        now = {node for node in slow if chance.random() < 1 / 3}
        found.append(
            {(pair, place): rate * (0.7 if now & set(pair) else 1) for (pair, place), rate in values.items()}
        )
    return found


@pytest.mark.parametrize(("nodes", "rounds"), [(4, 120), (16, 60), (64, 60)])
def test_a_node_that_is_slow_in_a_third_of_its_rounds_is_named(nodes, rounds):
    named = [
        {one.node for one in intermittent.judge(measured(nodes, rounds, seed, [2]))} for seed in range(20)
    ]
    assert named.count({2}) >= 19 and set().union(*named) <= {2}


@pytest.mark.parametrize("nodes", [3, 16, 64])
def test_a_healthy_fleet_gets_no_name(nodes):
    assert all(intermittent.judge(measured(nodes, 60, seed)) == () for seed in range(40))


def test_two_slow_nodes_are_named():
    assert {one.node for one in intermittent.judge(measured(32, 100, 1, [3, 9]))} == {3, 9}


def test_the_same_number_gives_the_same_pairs():
    assert intermittent.plan(9, 4) == intermittent.plan(9, 4) != intermittent.plan(9, 5)


def test_no_rounds_name_nobody():
    assert intermittent.judge([]) == ()
