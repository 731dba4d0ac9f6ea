"""Batches and the number of failures that ends a run: counts, percentages, and what is neither."""

from __future__ import annotations

import pytest

from clusterctl.apply.rolling import Rolling, amount
from clusterctl.errors import UsageError


@pytest.mark.parametrize(
    ("text", "total", "expected"),
    [("3", 8, 3), ("25%", 8, 2), ("25%", 9, 3), ("1%", 8, 1), ("100%", 8, 8), ("20", 8, 20), ("5%", 0, 1)],
)
def test_amounts(text, total, expected):
    assert amount("--batch", text, total) == expected


@pytest.mark.parametrize(
    "text", ["", "0", "0%", "-1", "101%", "a quarter", "25 %", "1.5", "٣", "9" * 5000, "9" * 5000 + "%"]
)
def test_what_is_no_amount_is_refused_with_its_option(text):
    with pytest.raises(UsageError, match="--batch"):
        Rolling(batch=text).check()
    with pytest.raises(UsageError, match="--max-failures"):
        Rolling(max_failures=text).check()


def test_batches_keep_the_order_and_percentages_are_of_the_whole():
    nodes = list(range(7))
    assert list(Rolling().batches(nodes, 7)) == [tuple(nodes)]
    assert list(Rolling("3").batches(nodes, 7)) == [(0, 1, 2), (3, 4, 5), (6,)]
    assert list(Rolling("25%").batches(nodes[:3], 8)) == [(0, 1), (2,)]
    assert list(Rolling("25%").batches([], 8)) == []
    assert Rolling().failures_allowed(8) is None
    assert Rolling(max_failures="25%").failures_allowed(8) == 2
