"""What rows measured becomes OK, WARN, FAIL or NOT RUN, each with its threshold and the source of the threshold."""

from __future__ import annotations

import random

import pytest

from clusterctl.acceptance.judge import judge
from clusterctl.acceptance.limits import AcceptLimits, ThresholdFile
from clusterctl.acceptance.model import (
    Parsed,
    RowFinding,
    RowFingerprint,
    RowMeasurement,
    RowOutcome,
    RowStatus,
)

H200 = "NVIDIA H200"


def measured(node, *values, field="bf16_tflops", better="more", hardware=H200, again=(), **more):
    def of(value, place):
        return RowMeasurement(field, value, "TFLOP/s", better == "more", f"GPU {place}")

    found = tuple(of(value, place) for place, value in enumerate(values))
    second = tuple(of(value, place) for place, value in enumerate(again))
    return RowOutcome(node, "gpu-gemm", hardware, parsed=Parsed(found), again=second, **more)


def thresholds(**of_h200):
    rules = [{"when": when, "verdict": verdict, "source": "a vendor"} for when, verdict in of_h200.values()]
    return AcceptLimits((ThresholdFile.model_validate({"hardware": ["H200"], "rules": rules}),))


def statuses(outcomes, limits=None):
    return {one.outcome.node: one.status for one in judge(outcomes, limits or AcceptLimits(()))}


def test_a_value_below_a_threshold_fails_with_its_source():
    limits = thresholds(
        fail=("gpu-gemm.bf16_tflops < 715", "fail"), warn=("gpu-gemm.bf16_tflops < 750", "warn")
    )
    low, between, good = judge([measured("a", 700), measured("b", 740), measured("c", 780)], limits)
    assert (low.status, low.values[0].limit, low.values[0].source) == (RowStatus.FAIL, ">= 715", "a vendor")
    assert "700 TFLOP/s, not >= 715" in low.reason
    assert between.status is RowStatus.WARN
    assert good.status is RowStatus.OK


def test_a_threshold_of_other_hardware_does_not_apply():
    limits = thresholds(fail=("gpu-gemm.bf16_tflops < 715", "fail"))
    assert statuses([measured("a", 300, hardware="NVIDIA A100-SXM4-80GB")], limits) == {
        "a": RowStatus.MEASURED
    }
    # GH200 contains H200 as letters, but it is another product.
    assert statuses([measured("a", 300, hardware="NVIDIA GH200 480GB")], limits) == {"a": RowStatus.MEASURED}


def test_one_node_without_a_threshold_is_measured_and_not_ok():
    (one,) = judge([measured("a", 700)], AcceptLimits(()))
    assert one.status is RowStatus.MEASURED and "nothing to compare with" in one.reason


@pytest.mark.parametrize(
    ("loss", "status"), [(0.04, RowStatus.OK), (0.11, RowStatus.WARN), (0.3, RowStatus.FAIL)]
)
def test_a_node_that_differs_from_the_fleet_is_named(loss, status):
    rng = random.Random(3)
    fleet = [measured(f"n{i}", 780 * (1 + 0.005 * rng.gauss(0, 1))) for i in range(8)]
    found = judge([*fleet, measured("slow", 780 * (1 - loss))], AcceptLimits(()))
    assert {one.outcome.node: one.status for one in found} == {
        **{f"n{i}": RowStatus.OK for i in range(8)},
        "slow": status,
    }
    if status is not RowStatus.OK:
        assert found[-1].is_far and "below" in found[-1].reason


def test_less_may_be_better():
    fleet = [measured(f"n{i}", 2.0, better="less", field="latency_us") for i in range(5)]
    found = judge([*fleet, measured("slow", 3.0, better="less", field="latency_us")], AcceptLimits(()))
    assert [one.status for one in found] == [RowStatus.OK] * 5 + [RowStatus.FAIL]
    assert "50% above 2" in found[-1].reason and found[-1].values[0].limit.startswith("<= ")


def test_of_two_nodes_the_slower_one_is_a_warning():
    assert statuses([measured("a", 780, 781), measured("b", 400, 779)]) == {
        "a": RowStatus.OK,
        "b": RowStatus.WARN,
    }


def test_a_noisy_fleet_has_no_outlier():
    values = [100, 70, 130, 90, 60, 140, 110, 80, 120, 75]
    assert set(statuses([measured(f"n{i}", value) for i, value in enumerate(values)]).values()) == {
        RowStatus.OK
    }


def test_what_was_well_in_the_second_measurement_is_ok():
    fleet = [measured(f"n{i}", 780) for i in range(5)]
    assert statuses([*fleet, measured("a", 500, again=[779])])["a"] is RowStatus.OK
    assert statuses([*fleet, measured("a", 500, again=[510])])["a"] is RowStatus.FAIL


def test_hardware_is_compared_with_its_like():
    outcomes = [measured(f"n{i}", 780) for i in range(4)] + [measured("old", 300, hardware="NVIDIA A100")]
    assert statuses(outcomes)["old"] is RowStatus.MEASURED


def test_a_site_replaces_the_shipped_rules_of_its_fields():
    limits = AcceptLimits(
        thresholds(fail=("gpu-gemm.bf16_tflops < 715", "fail")).shipped,
        ThresholdFile.model_validate(
            {"rules": [{"when": "gpu-gemm.bf16_tflops < 600", "verdict": "fail", "source": "contract"}]}
        ),
    )
    (one,) = judge([measured("a", 650)], limits)
    assert (one.status, one.values[0].source) == (RowStatus.OK, "contract")


def test_a_rule_may_use_the_median_of_the_fleet():
    site = ThresholdFile.model_validate(
        {
            "rules": [
                {"when": "gpu-gemm.bf16_tflops < 0.98 * fleet_median", "verdict": "fail", "source": "strict"}
            ]
        }
    )
    found = statuses([measured("a", 100), measured("b", 100), measured("c", 97)], AcceptLimits((), site))
    assert found == {"a": RowStatus.OK, "b": RowStatus.OK, "c": RowStatus.FAIL}
    assert statuses([measured("a", 100)], AcceptLimits((), site)) == {"a": RowStatus.MEASURED}


def hashed(node, *texts):
    return RowOutcome(
        node, "sdc", H200,
        parsed=Parsed(fingerprints=tuple(RowFingerprint("gemm", t, f"GPU {i}") for i, t in enumerate(texts))),
    )  # fmt: skip


def test_a_device_that_computes_something_else_fails():
    found = judge([hashed("a", "x", "x"), hashed("b", "x", "y")], AcceptLimits(()))
    assert [one.status for one in found] == [RowStatus.OK, RowStatus.FAIL]
    assert "GPU 1: gemm differs from that of 1 of 1 equal nodes" in found[1].reason
    # Without a majority the run cannot tell which device is wrong.
    assert set(statuses([hashed("a", "x"), hashed("b", "y")]).values()) == {RowStatus.WARN}


def test_reasons_become_statuses():
    outcomes = [
        RowOutcome("a", "disk", not_run="fio not found: apt-get install fio"),
        RowOutcome("b", "disk", failed="it did not end within 60 s, and was ended"),
        RowOutcome("c", "disk", not_applicable="the node has no disk"),
        RowOutcome("d", "disk", parsed=Parsed(findings=(RowFinding(RowStatus.FAIL, "Xid 79", "GPU 1"),))),
        RowOutcome("e", "disk"),
    ]
    assert statuses(outcomes) == {
        "a": RowStatus.NOT_RUN, "b": RowStatus.FAIL, "c": RowStatus.NOT_APPLICABLE, "d": RowStatus.FAIL,
        "e": RowStatus.OK,
    }  # fmt: skip
    assert judge(outcomes, AcceptLimits(()))[3].reason == "GPU 1: Xid 79"
