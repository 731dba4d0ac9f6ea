"""Faster, slower or noise: the distribution, and the rates of false alarms and of differences found."""

import random
import statistics

import pytest

from clusterctl.documents.kinds import ComparisonWord
from clusterctl.results import noise
from clusterctl.results.noise import Pair, Scatter, do_not_touch, judge, scatter_of_repeats, what_decides
from clusterctl.results.variants import spread

SIZES = 18


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 318.309), (2, 22.327), (3, 10.215), (4, 7.173), (10, 4.144), (60, 3.232)]
)
def test_quantiles_are_those_of_the_tables(degrees, t):
    """One-sided 0.001, NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2."""
    assert noise.quantile(degrees, 0.002) == pytest.approx(t, abs=6e-4)
    assert noise.two_sided(noise.quantile(degrees, 0.05), degrees) == pytest.approx(0.05, rel=1e-6)


def test_more_degrees_than_any_run_has_cost_nothing():
    assert noise.quantile(10**9, 0.05) == pytest.approx(1.96, abs=0.01)


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


def test_a_difference_is_undecided_where_the_ranges_do_not_touch_and_more_repeats_can_tell():
    some = Scatter(0.1, 2, 3)
    (found,) = judge([Pair(1.2, some, some, apart=True)])
    assert found.word is ComparisonWord.UNDECIDED and found.noise > 0.2
    assert found.repeats is not None and 4 < found.repeats < 20
    # With as many repeats that vary as much, it is decided, also if the next medians differ by less.
    for ratio in (1.2, 1.16):
        same = Scatter(0.1, found.repeats - 1, found.repeats)
        assert judge([Pair(ratio, same, same, apart=True)])[0].word is ComparisonWord.FASTER


@pytest.mark.parametrize(
    ("pair", "word", "repeats"),
    [
        # Ranges that touch, and differences that never count.
        (Pair(1.3, Scatter(0.1, 2, 3), Scatter(0.1, 2, 3)), ComparisonWord.SAME, None),
        (Pair(1.04, Scatter(0.01, 2, 3), Scatter(0.01, 2, 3), apart=True), ComparisonWord.SAME, None),
        # More repeats than anyone measures.
        (Pair(1.06, Scatter(0.3, 2, 3), Scatter(0.3, 2, 3), apart=True), ComparisonWord.UNDECIDED, None),
        (Pair(2.0, Scatter(0.01, 2, 3), None, apart=False), ComparisonWord.ONCE, None),
    ],
)
def test_what_is_not_undecided(pair, word, repeats):
    (found,) = judge([pair])
    assert (found.word, found.repeats) == (word, repeats)


def test_ranges_touch_in_one_value_and_need_repeats_on_both_sides():
    assert do_not_touch(spread([1.0, 2.0]), spread([2.1, 3.0]))
    assert do_not_touch(spread([2.1, 3.0]), spread([1.0, 2.0]))
    assert not do_not_touch(spread([1.0, 2.0]), spread([2.0, 3.0]))
    assert not do_not_touch(spread([1.0]), spread([2.0, 3.0]))


def test_the_sentence_names_the_repeats_that_decide_all():
    assert what_decides([]) == ""
    assert "; --repeats 9 decides, if they vary as much." in what_decides([5, 9])
    assert what_decides([5, None]).endswith(
        "for some, even 50 repeats may not decide: measure while the machines are idle."
    )
    assert "chance; even 50 repeats may not decide" in what_decides([None])
