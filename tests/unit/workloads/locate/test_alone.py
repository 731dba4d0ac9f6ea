"""A rank that is slow alone is named among ranks with the same device."""

from __future__ import annotations

import random

import pytest

from clusterctl.workloads.locate import alone
from clusterctl.workloads.locate.verdict import SuspectState


def judged(devices, loss, seed, noise=0.03):
    chance = random.Random(seed)
    steps = alone.judge(devices)
    next(steps)
    while True:
        window = {
            (measure, rank): (1 - loss.get((measure, rank), 0)) * (1 - abs(chance.gauss(0, noise)))
            for measure in ("gemm", "memory") for rank in range(len(devices))
        }  # fmt: skip
        try:
            steps.send(window)
        except StopIteration as ended:
            return {(one.rank, one.measure) for one in ended.value if one.status is SuspectState.NAMED}


@pytest.mark.parametrize("ranks", [4, 8, 64])
def test_a_slow_rank_is_named_with_what_is_slow(ranks):
    for seed in range(10):
        assert judged(["cpu"] * ranks, {("memory", 2): 0.25}, seed) == {(2, "memory")}


@pytest.mark.parametrize("ranks", [3, 8, 64])
def test_a_healthy_fleet_gets_no_name(ranks):
    for seed in range(40):
        assert judged(["cpu"] * ranks, {}, seed) == set()


def test_other_devices_are_not_peers():
    devices = ["H200"] * 6 + ["A100"] * 2
    assert judged(devices, {("gemm", 6): 0.6, ("gemm", 7): 0.6}, 1) == set()
