"""A rank that lies about its rates names no other node: 1,000 seeded fleets, each with a liar of another kind."""

from __future__ import annotations

import random

import pytest
from locate_records import Ranks, honest
from simulated_pairs import SimulatedFleet

from clusterctl.benchmarks import locate
from clusterctl.workloads.locate import ends
from clusterctl.workloads.locate.verdict import SuspectState

RUNS = 1000


def liar(kind, rank, victim, chance):
    """What the liar reports instead of its rate; rank and node are the same number here."""
    share = chance.uniform(0.05, 0.95)
    lies = iter(range(chance.randint(1, 20)))

    def lie(own, peer, rate):
        if own != rank:
            return rate
        if kind == "stops":
            return rate * (1 - share) if peer == victim and next(lies, None) is not None else rate
        if kind == "one-low":
            return rate * (1 - share) if peer == victim else rate
        if kind == "one-high":
            return rate * (1 + 9 * share) if peer == victim else rate
        if kind == "all-low":
            return rate * (1 - share)
        if kind == "all-high":
            return rate * (1 + 9 * share)
        if kind == "all-but-victim-high":
            return rate if peer == victim else rate * (1 + share)
        if kind == "random":
            return rate * chance.uniform(0.01, 3)
        if kind == "zero":
            return 0.0
        return 1e18

    return lie


KINDS = (
    "one-low",
    "one-high",
    "all-low",
    "all-high",
    "all-but-victim-high",
    "random",
    "zero",
    "huge",
    "stops",
)


def test_no_liar_names_another_node():
    chance = random.Random(30)
    held = dict.fromkeys(KINDS, 0)
    for number in range(RUNS):
        kind, nodes = KINDS[number % len(KINDS)], chance.randint(3, 12)
        rank, victim = chance.sample(range(nodes), 2)
        ranks = Ranks(
            SimulatedFleet(nodes, number, bursts=False, noise=0.02), liar(kind, rank, victim, chance)
        )
        found = locate.parse(ranks.run(), ranks.hosts)
        assert found.faults == (), (number, kind, found.faults)
        assert found.suspected <= {ranks.hosts[rank]}, (number, kind, nodes, rank, victim, found.suspected)
        held[kind] += ranks.hosts[rank] in found.suspected
    assert held["all-high"] + held["zero"] + held["huge"] > 0.8 * 3 * RUNS / len(KINDS), held


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_node_is_named_beside_a_liar(kind):
    """A liar does not hide another node's loss; a liar that is slow itself does not hide its own."""
    for number in range(10):
        chance = random.Random(number)
        fleet = SimulatedFleet(8, number, {(2, 0): 0.4}, bursts=False, noise=0.02)
        ranks = Ranks(fleet, liar(kind, 5, 3, chance))
        found = locate.parse(ranks.run(), ranks.hosts)
        assert "gpu03" in found.suspected and found.suspected <= {"gpu03", "gpu06"}, (number, found.suspected)


def test_a_slow_node_that_claims_full_speed_is_at_fault():
    ranks = Ranks(
        SimulatedFleet(6, 1, {(4, 0): 0.4}, bursts=False),
        lambda own, _, rate: rate / 0.6 if own == 4 else rate,
    )
    found = locate.parse(ranks.run(), ranks.hosts)
    assert found.suspected == {"gpu05"}
    assert {one.at_fault for one in found.apart} == {4} and len(found.apart) == 5


@pytest.mark.parametrize("nodes", [5, 7, 9])
def test_two_liars_together_name_no_other_node(nodes):
    for number in range(40):
        chance = random.Random(number)
        first, second, victim = chance.sample(range(nodes), 3)

        def lie(own, peer, rate, liars=(first, second), victim=victim):
            return 0.5 * rate if own in liars and peer == victim else rate

        ranks = Ranks(SimulatedFleet(nodes, number, bursts=False, noise=0.02), lie)
        found = locate.parse(ranks.run(repeated=40), ranks.hosts)
        assert ranks.hosts[victim] not in found.suspected, (number, found.apart)


def test_a_lie_about_one_partner_is_an_open_pair():
    ranks = Ranks(SimulatedFleet(6, 3), lambda own, peer, rate: 0.5 * rate if (own, peer) == (1, 4) else rate)
    found = locate.parse(ranks.run(), ranks.hosts)
    (one,) = found.apart
    assert (one.nodes, one.at_fault, found.suspected) == ((1, 4), None, frozenset())
    assert one.gbps[0] < 0.6 * one.gbps[1]
    assert found.verdict.findings == () or all(
        f.status is not SuspectState.NAMED for f in found.verdict.findings
    )


def test_noise_of_both_clocks_is_at_nobodys_fault():
    """On loaded CPUs the ends of many pairs differ by chance."""
    for number in range(200):
        chance = random.Random(number)
        noisy = Ranks(
            SimulatedFleet(chance.randint(3, 8), number, noise=0.1),
            lambda _own, _peer, rate, chance=chance: rate * (1 - abs(chance.gauss(0, 0.15))),
        )
        found = locate.parse(noisy.run(), noisy.hosts)
        assert not any(one.at_fault is not None for one in found.apart), number


def test_the_mean_of_ends_that_agree_counts():
    key, other = ((0, 1), 0), ((2, 3), 0)
    assert ends.agreed({key: (2.0, 1.9), other: (2.0, 1.7)}) == {key: 1.95}
    assert ends.agreed({key: (0.0, 0.0), other: (0.0, 1.0)}) == {}
    assert honest(0, 1, 2.0) == 2.0
