"""The tree by which an image spreads: how many steps, who sends how often, and what a loss changes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterctl.images.distribution.spread import CONTROLLER, NEITHER_END, DistributionState, Transfer


def run_in_steps(spread, break_at=lambda transfer, step: None):
    """Let all transfers of a step end together; return the transfers of every step."""
    steps = []
    while not spread.over:
        begun = spread.start()
        assert begun, "nothing runs, and something waits"
        steps.append(begun)
        for transfer in begun:
            reason = break_at(transfer, len(steps))
            if reason is None:
                spread.arrived(transfer)
            else:
                spread.broke(transfer, "torn", blame=reason or None)
    return steps


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=300))
def test_all_nodes_have_it_after_a_logarithm_of_steps_and_the_controller_sends_once(count):
    nodes = [f"n{number}" for number in range(count)]
    spread = DistributionState(waiting=list(nodes))
    steps = run_in_steps(spread)
    assert len(steps) == 1 + math.ceil(math.log2(count))
    sent = [transfer for step in steps for transfer in step]
    assert sorted(transfer.target for transfer in sent) == sorted(nodes)
    assert [transfer.source for transfer in sent].count(CONTROLLER) == 1
    assert not spread.failed


def test_a_node_sends_to_one_other_at_a_time():
    spread = DistributionState(waiting=[f"n{number}" for number in range(9)])
    for step in run_in_steps(spread):
        assert len({transfer.source for transfer in step}) == len(step)


def test_a_target_at_fault_is_given_up_and_the_rest_go_on():
    spread = DistributionState(waiting=["a", "b", "c", "d"])
    run_in_steps(spread, lambda transfer, step: transfer.target if transfer.target == "c" else None)
    assert spread.failed == {"c": "torn"}
    assert sorted(spread.holders) == ["a", "b", "d"]


def test_a_source_that_cannot_send_on_is_replaced_by_another_sender():
    spread = DistributionState(waiting=["a", "b", "c"])
    steps = run_in_steps(spread, lambda transfer, step: "a" if transfer.source == "a" else None)
    assert sorted(spread.holders) == ["a", "b", "c"]
    assert spread.silent == {"a"}
    # No other node had it: the controller had to send a second time, and then b sent on.
    senders = [transfer.source for step in steps for transfer in step]
    assert senders == [CONTROLLER, "a", CONTROLLER, "b"]


def test_nodes_that_cannot_reach_each_other_are_all_served_by_the_controller():
    spread = DistributionState(waiting=[f"n{number}" for number in range(5)])
    run_in_steps(spread, lambda transfer, step: transfer.source or None)
    assert len(spread.holders) == 5
    assert not spread.failed


def test_a_target_that_always_fails_ends_and_is_named():
    spread = DistributionState(waiting=["a", "b"])
    run_in_steps(spread, lambda transfer, step: "" if transfer.target == "b" else None)
    assert spread.failed == {"b": "torn"}
    assert spread.holders == ["a"]


@settings(deadline=None)
@given(st.integers(min_value=1, max_value=40), st.randoms(use_true_random=False))
def test_whatever_breaks_everything_ends_and_every_node_is_accounted_for(count, random):
    nodes = [f"n{number}" for number in range(count)]
    spread = DistributionState(waiting=list(nodes))
    run_in_steps(
        spread,
        lambda t, step: random.choice((None, None, None, "", t.source, t.target)),
    )
    assert sorted([*spread.holders, *spread.failed]) == sorted(nodes)


def test_a_lost_holder_sends_no_more():
    spread = DistributionState(waiting=["a", "b"])
    (first,) = spread.start()
    spread.arrived(first)
    spread.lost("a", "powered off")
    assert spread.start() == (Transfer(CONTROLLER, "b"),)
    assert spread.failed == {"a": "powered off"}


@pytest.mark.parametrize("tries", [1, 3])
def test_tries_are_counted_per_target(tries):
    spread = DistributionState(waiting=["a"], max_tries=tries)
    steps = run_in_steps(spread, lambda transfer, step: "")
    assert len(steps) == tries


def test_a_source_that_another_sender_has_ended_goes_on_sending():
    spread = DistributionState(["a", "b"])
    spread.arrived(*spread.start())
    [transfer] = spread.start()
    spread.broke(transfer, "another sender has taken over", blame=NEITHER_END)
    assert spread.start() == (transfer,)
    spread.broke(transfer, "torn")
    assert spread.silent == {transfer.source}
