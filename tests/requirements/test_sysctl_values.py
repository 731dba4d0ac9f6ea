"""Kernel parameters: what is better already stays, and what is written satisfies, whatever the kernel printed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterctl.requirements.containers.daemon_json import merged
from clusterctl.requirements.fleet.votes import OncePerFleet, majority
from clusterctl.requirements.kernel.network_buffers import DEFAULTS
from clusterctl.requirements.kernel.sysctl import Wanted


@pytest.mark.parametrize(
    ("wanted", "now", "target"),
    [
        (Wanted("a", "10"), "9", "10"),
        (Wanted("a", "10"), "11", "11"),
        (Wanted("a", "4 8 16"), "8 4 16", "8 8 16"),
        (Wanted("a", "4 8 16"), "5", "4 8 16"),
        (Wanted("a", "10"), "what", "10"),
        (Wanted("a", "10"), "\u00b2", "10"),
        (Wanted("a", "10"), "9" * 5000, "10"),
        (Wanted("a", "0", "exact"), "1", "0"),
        (Wanted("a", "100 200", "range"), "150 160", "100 200"),
        (Wanted("a", "100 200", "range"), "50 160", "50 200"),
        (Wanted("a", "5,7", "ports"), "", "5,7"),
        (Wanted("a", "5,7", "ports"), "1-3,6", "1-3,5-7"),
    ],
)
def test_what_is_written(wanted, now, target):
    assert wanted.target(now) == target


@given(
    st.sampled_from(DEFAULTS),
    st.text(max_size=40) | st.lists(st.integers(0, 1 << 40)).map(lambda n: " ".join(map(str, n))),
)
def test_what_is_written_is_enough_and_stays(wanted, now):
    target = wanted.target(now)
    assert wanted.satisfied(target)
    assert wanted.target(target) == target


@given(st.lists(st.integers(0, 65535), max_size=30))
def test_ports_that_were_reserved_stay_reserved(ports):
    wanted = next(item for item in DEFAULTS if item.kind == "ports")
    kept = Wanted("p", ",".join(map(str, ports)), "ports").target(wanted.value)
    assert wanted.satisfied(kept)
    assert Wanted("p", ",".join(map(str, ports)), "ports").satisfied(kept)


@pytest.mark.parametrize(
    ("votes", "winner"),
    [("", None), ("aa", None), ("aab", "a"), ("aabb", None), ("aaab", "a"), ("abc", None)],
)
def test_a_majority_takes_three_voters_and_more_than_half(votes, winner):
    assert majority(Counter(votes)) == winner


def test_a_value_of_the_fleet_is_worked_out_once_per_fleet():
    asked = []
    counted = OncePerFleet(lambda fleet: asked.append(fleet) or len(asked))
    one, other = object(), object()
    assert [counted(one), counted(one), counted(other), counted(one)] == [1, 1, 2, 3]


def test_a_merged_daemon_json_keeps_what_it_does_not_change():
    text = merged({"b": {"x": 1, "y": [1]}, "a": True}, {"b": {"y": [2], "z": None}})
    assert (
        text == '{\n  "b": {\n    "x": 1,\n    "y": [\n      2\n    ],\n    "z": null\n  },\n  "a": true\n}\n'
    )
