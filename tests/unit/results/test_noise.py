"""Faster, slower or noise: the distribution, and the rates of false alarms and of differences found."""

import random
import statistics

import pytest

from clusterctl.documents.kinds import ComparisonWord
from clusterctl.results import student
from clusterctl.results.noise import Pair, Scatter, judge, scatter_of_repeats

SIZES = 18


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 318.309), (2, 22.327), (3, 10.215), (4, 7.173), (10, 4.144), (60, 3.232)]
)
def test_quantiles_are_those_of_the_tables(degrees, t):
    """One-sided 0.001, NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2."""
    assert student.quantile(degrees, 0.002) == pytest.approx(t, abs=6e-4)
    assert student.two_sided(student.quantile(degrees, 0.05), degrees) == pytest.approx(0.05, rel=1e-6)


def test_more_degrees_than_any_run_has_cost_nothing():
    assert student.quantile(10**9, 0.05) == pytest.approx(1.96, abs=0.01)


def pairs(noise, repeats, by=1.0):
    """The ratios of one table: two runs of some sizes, the second faster by a factor."""
    found = []
    for _ in range(SIZES):
        one, other = ([noise() for _ in range(repeats)] for _ in "AB")
        ratio = by * statistics.median(one) / statistics.median(other)
        found.append(Pair(ratio, *(scatter_of_repeats(cv(side), repeats) for side in (one, other))))
    return found


def cv(values):
    return statistics.stdev(values) / statistics.fmean(values)


def outliers(sigma):
    return random.gauss(1, sigma) * (1 + random.random() if random.random() < 0.1 else 1)


@pytest.mark.parametrize("repeats", [3, 5, 10])
@pytest.mark.parametrize(
    "noise",
    [
        lambda: random.gauss(1, 0.05),
        lambda: random.gauss(1, 0.2),
        lambda: outliers(0.05),
        lambda: 1 + 0.3 * random.expovariate(1),
    ],
    ids=["5 %", "20 %", "outliers", "skewed"],
)
def test_of_fifty_tables_of_equal_runs_at_most_one_has_a_false_alarm(repeats, noise):
    random.seed(repeats)
    alarms = [
        any(
            one.word in (ComparisonWord.FASTER, ComparisonWord.SLOWER) for one in judge(pairs(noise, repeats))
        )
        for _ in range(100)
    ]
    assert sum(alarms) <= 2


def test_five_repeats_with_two_percent_of_noise_find_ten_percent():
    random.seed(7)
    found = [one.word for _ in range(20) for one in judge(pairs(lambda: random.gauss(1, 0.02), 5, by=1.1))]
    assert found.count(ComparisonWord.FASTER) >= 0.9 * len(found) and ComparisonWord.SLOWER not in found


def test_a_small_difference_counts_between_interleaved_variants_only():
    steady = Scatter(0.001, 9, 10)
    assert judge([Pair(1.04, steady, steady)])[0].word is ComparisonWord.SAME
    assert judge([Pair(1.04, steady, steady)], floor=0.01)[0].word is ComparisonWord.FASTER


def test_more_ratios_in_a_table_need_a_larger_difference():
    some = Scatter(0.03, 4, 5)
    alone, *_ = judge([Pair(1.0, some, some)])
    many = judge([Pair(1.0, some, some)] * 20)
    assert alone.noise < many[0].noise and alone.word is ComparisonWord.SAME


def test_equal_repeats_have_the_floor_alone():
    exact = Scatter(0.0, 2, 3)
    assert [(one.word, one.noise) for one in judge([Pair(1.0, exact, exact), Pair(0.5, exact, exact)])] == [
        (ComparisonWord.SAME, 0.05),
        (ComparisonWord.SLOWER, 0.05),
    ]
    assert judge([]) == []
