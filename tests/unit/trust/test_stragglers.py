"""Slow ranks: an outlier is named, ordinary spread is not."""

import random

import pytest

from clusterctl.trust.stragglers import find


def rates(*values):
    return {rank: (f"n{rank // 4}", value) for rank, value in enumerate(values)}


def test_the_slow_rank_is_named_with_its_loss():
    found = find(rates(100, 101, 99, 100, 100, 80, 101, 100))
    assert [(one.rank, one.host, round(one.loss, 2)) for one in found] == [(5, "n1", 0.2)]
    assert found[0].part().median_samples_per_s == 100


def test_two_slow_ranks_slowest_first():
    assert [one.rank for one in find(rates(100, 70, 100, 101, 99, 100, 60, 100))] == [6, 1]


def test_equal_ranks_and_one_below_have_no_deviation_and_still_an_outlier():
    (found,) = find(rates(50, 50, 50, 40))
    assert (found.rank, found.deviations) == (3, None)


@pytest.mark.parametrize(
    "values", [(100, 90), (100,), (), (0, 0, 0), (100, 100, 100, 98), (100, 100, 130, 100)]
)
def test_nothing_to_name(values):
    assert find(rates(*values)) == ()


def test_noise_alone_names_nobody_as_a_rule():
    random.seed(3)
    named = sum(bool(find(rates(*(random.gauss(100, 1) for _ in range(8))))) for _ in range(200))
    assert named <= 20
