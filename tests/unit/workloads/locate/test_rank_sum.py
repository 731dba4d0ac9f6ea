"""The tail is that of all possible ranks."""

from __future__ import annotations

import itertools

import pytest

from clusterctl.workloads.locate import rank_sum


@pytest.mark.parametrize("controls", [(1,), (1, 1, 1), (3, 3), (2, 5, 1)])
def test_the_tail_counts_all_ways(controls):
    ways = [sum(ranks) for ranks in itertools.product(*(range(1, number + 2) for number in controls))]
    for total in range(len(controls), max(ways) + 1):
        expected = sum(way <= total for way in ways) / len(ways)
        assert rank_sum.tail(total, controls) == pytest.approx(expected)


def test_an_equal_control_does_not_count_against_a_suspect():
    assert rank_sum.rank(2.0, [1.0, 2.0, 3.0]) == 3
    assert rank_sum.rank(0.5, [1.0, 2.0, 3.0]) == 1


@pytest.mark.parametrize(("controls", "rounds"), [(1, 12), (3, 6), (7, 4), (31, 3)])
def test_the_rounds_that_a_unit_needs(controls, rounds):
    level = 0.001 / 3
    assert rank_sum.least_rounds(controls, level) == rounds
    assert (
        rank_sum.tail(rounds, [controls] * rounds)
        <= level
        < rank_sum.tail(rounds - 1, [controls] * (rounds - 1))
    )
