"""Lengths of time and moments as options hold them, read by one parser."""

from datetime import datetime, timezone

import pytest

from clusterctl.cli import times
from clusterctl.errors import UsageError

NOW = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "length", "moment"),
    [
        ("90s", 90, "2026-11-24T11:58:30Z"),
        ("10m", 600, "2026-11-24T11:50:00Z"),
        ("2h", 7200, "2026-11-24T10:00:00Z"),
        (" 1 d", 86400, "2026-11-23T12:00:00Z"),
        ("4w", 2419200, "2026-10-27T12:00:00Z"),
    ],
)
def test_a_length_and_an_age_are_written_in_one_way(text, length, moment):
    assert times.seconds(text, "--for") == length
    assert times.since(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "m", "10", "-1m", "1.5h", "10M", "1y", "1" * 10 + "s", "\u0661m"])
def test_other_texts_are_no_length(text):
    with pytest.raises(UsageError, match="is not a time"):
        times.seconds(text, "--for")


@pytest.mark.parametrize("text", ["0s", "53w"])
def test_a_length_is_more_than_nothing_and_at_most_a_year(text):
    with pytest.raises(UsageError, match="--for must be a positive number of seconds, at most a year"):
        times.seconds(text, "--for")


def test_a_moment_is_a_date_or_a_time_too():
    assert times.since("2026-11-01T10:00:00Z") == "2026-11-01T10:00:00Z"
    assert times.since("2026-11-01T10:00:00+02:00") == "2026-11-01T08:00:00Z"
    for text in ("yesterday", "", "999999999w", "2026-13-01"):
        with pytest.raises(UsageError, match="cannot read --older-than"):
            times.since(text, option="--older-than")
