"""What was named is examined: in which direction it is slow, and whether its rails are slow one by one."""

from __future__ import annotations

import pytest
from simulated_pairs import SimulatedFleet

from clusterctl.workloads.locate.verdict import SuspectState

SLOW, WELL = SuspectState.NAMED, SuspectState.CLEARED


def outcomes(fleet):
    """Return the status of each test by nodes, place and test."""
    found = fleet.examine(fleet.locate())
    return {(one.finding.nodes, one.finding.place, one.test.value): one.status for one in found}


@pytest.mark.parametrize("nodes", [3, 4, 8, 40])
def test_a_rail_that_is_slow_when_it_sends_is_well_when_it_receives(nodes):
    for seed in range(5):
        fleet = SimulatedFleet(nodes, seed, sends={(2, 0): 0.25}, bursts=False, noise=0.02)
        assert outcomes(fleet) == {((2,), 0, "sends"): SLOW, ((2,), 0, "receives"): WELL}


def test_a_rail_that_is_slow_in_both_directions_is_slow_in_each():
    fleet = SimulatedFleet(6, 1, {(2, 0): 0.25}, bursts=False, noise=0.02)
    assert outcomes(fleet) == {((2,), 0, "sends"): SLOW, ((2,), 0, "receives"): SLOW}


@pytest.mark.parametrize("nodes", [3, 6, 40])
def test_a_cable_is_slow_from_both_ends(nodes):
    fleet = SimulatedFleet(nodes, 1, cables={(0, 2): 0.3}, bursts=False, noise=0.02)
    assert outcomes(fleet) == {((0, 2), 0, "sends"): SLOW, ((0, 2), 0, "receives"): SLOW}


def test_rails_that_share_what_is_slow_are_well_one_by_one():
    fleet = SimulatedFleet(6, 1, shared={4: 0.3}, places=2, bursts=False, noise=0.02)
    assert outcomes(fleet)[(4,), 0, "alone"] is WELL
    apart = SimulatedFleet(6, 1, {(4, 0): 0.3, (4, 1): 0.3}, places=2, bursts=False, noise=0.02)
    assert outcomes(apart)[(4,), 0, "alone"] is SLOW


def test_many_slow_nodes_are_examined_at_once():
    bad = {(node, 0): 0.25 for node in range(0, 60, 10)}
    fleet = SimulatedFleet(64, 1, bad, bursts=False, noise=0.02)
    assert set(outcomes(fleet).values()) == {SLOW} and len(outcomes(fleet)) == 2 * len(bad)


def test_noise_and_disturbed_pairs_seldom_lead_to_a_wrong_direction():
    wrong = sum(
        outcomes(SimulatedFleet(4, seed, sends={(1, 0): 0.25})).get(((1,), 0, "receives")) is SLOW
        for seed in range(100)
    )
    assert wrong == 0


def test_nothing_is_measured_if_nothing_was_named():
    assert SimulatedFleet(8, 1).examine(SimulatedFleet(8, 1).locate()) == ()
